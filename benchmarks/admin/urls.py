from django.contrib import admin
from django.urls import include, path

# The filter of the list offers the tasks that are known.
import benchmarks.admin.tasks  # noqa: F401

urlpatterns = [
    path("admin/", admin.site.urls),
    path("jobs/", include("django_claimq.http.urls")),
]
