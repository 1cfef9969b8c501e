from django.contrib import admin

from django_claimq.admin import JobInline
from example_project.census.models import Census, FileReport, SourceFile


@admin.register(Census)
class CensusAdmin(admin.ModelAdmin):
    list_display = ["source", "root", "created_at"]
    inlines = [JobInline]


@admin.register(SourceFile)
class SourceFileAdmin(admin.ModelAdmin):
    list_display = ["path", "census", "job_id"]
    list_filter = ["census"]
    search_fields = ["path", "job_id"]


@admin.register(FileReport)
class FileReportAdmin(admin.ModelAdmin):
    list_display = ["file", "lines", "functions", "classes", "longest_function", "longest_lines"]
    list_select_related = ["file"]
    raw_id_fields = ["file"]
    search_fields = ["file__path", "longest_function"]
