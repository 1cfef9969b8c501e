from django import forms

from example_project.census.sources import MAX_PATH, Source, SourceError, find_source


class CensusForm(forms.Form):
    source = forms.CharField(
        label="Package or folder",
        initial="django",
        max_length=MAX_PATH,
        help_text="The name of an installed package, or a folder such as ~/project.",
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "none"}),
    )

    def clean_source(self) -> Source:
        try:
            return find_source(self.cleaned_data["source"])
        except SourceError as error:
            raise forms.ValidationError(str(error)) from None
