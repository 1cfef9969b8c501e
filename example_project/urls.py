from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("jobs/", include("django_claimq.http.urls")),
    path("", include("example_project.census.urls")),
]
