from django.db import connection, models


class Row(models.Model):
    number = models.BigIntegerField(primary_key=True)

    class Meta:
        app_label = "rows"
        db_table = "number_row"

    def __str__(self):
        return str(self.number)


def fill(count):
    with connection.schema_editor() as editor:
        editor.create_model(Row)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO number_row SELECT generate_series(0, %s)", [count - 1])
        cursor.execute("ANALYZE number_row")
