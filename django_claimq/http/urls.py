"""For the project's URLconf: `path("jobs/", include("django_claimq.http.urls"))`."""

from django.urls import path

from django_claimq.http.views import job_status

app_name = "claimq"
urlpatterns = [path("<str:token>/", job_status, name="job_status")]
