from django.urls import path

from example_project.census import views

app_name = "census"
urlpatterns = [
    path("", views.home, name="home"),
    path("<int:pk>/", views.detail, name="detail"),
    path("<int:pk>/findings/", views.findings, name="findings"),
    path("<int:pk>/export/", views.export, name="export"),
    path("exports/<int:pk>/", views.download, name="download"),
]
