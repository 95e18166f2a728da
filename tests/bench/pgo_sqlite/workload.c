// Query workload on an in-memory SQLite database: deterministic, prints a checksum so that builds can be compared.
#include <stdio.h>
#include <stdlib.h>

#include "sqlite3.h"

static sqlite3 *db;
static unsigned long long checksum;

static int add_row(void *unused, int columns, char **values, char **names)
{
	(void)unused;
	(void)names;
	for (int i = 0; i < columns; i++)
		for (const char *p = values[i] ? values[i] : "-"; *p; p++)
			checksum = checksum * 1099511628211ull + (unsigned char)*p;
	return 0;
}

static void run(const char *sql)
{
	char *error = NULL;

	if (sqlite3_exec(db, sql, add_row, NULL, &error) != SQLITE_OK) {
		fprintf(stderr, "workload: %s: %s\n", sql, error);
		exit(1);
	}
}

static void fill(int rows)
{
	sqlite3_stmt *insert;
	unsigned int seed = 12345;

	run("CREATE TABLE item(id INTEGER PRIMARY KEY, kind INT, price REAL, name TEXT, note TEXT)");
	run("CREATE TABLE sale(id INTEGER PRIMARY KEY, item INT, amount INT, day INT)");
	run("BEGIN");
	sqlite3_prepare_v2(db, "INSERT INTO item(kind, price, name, note) VALUES(?,?,?,?)", -1, &insert, NULL);
	for (int i = 0; i < rows; i++) {
		char name[32], note[64];

		seed = seed * 1103515245u + 12345u;
		snprintf(name, sizeof(name), "item-%u-%c", seed % 9973, 'a' + (int)(seed >> 8) % 26);
		snprintf(note, sizeof(note), "the %u quick brown foxes of %u", seed >> 16 & 255, seed >> 20);
		sqlite3_bind_int(insert, 1, (int)(seed >> 10 & 63));
		sqlite3_bind_double(insert, 2, (seed >> 5 & 0xffff) / 7.0);
		sqlite3_bind_text(insert, 3, name, -1, SQLITE_TRANSIENT);
		sqlite3_bind_text(insert, 4, note, -1, SQLITE_TRANSIENT);
		sqlite3_step(insert);
		sqlite3_reset(insert);
	}
	sqlite3_finalize(insert);
	sqlite3_prepare_v2(db, "INSERT INTO sale(item, amount, day) VALUES(?,?,?)", -1, &insert, NULL);
	for (int i = 0; i < rows * 3; i++) {
		seed = seed * 1103515245u + 12345u;
		sqlite3_bind_int(insert, 1, (int)(seed >> 8) % rows);
		sqlite3_bind_int(insert, 2, (int)(seed >> 20 & 31));
		sqlite3_bind_int(insert, 3, (int)(seed >> 12) % 365);
		sqlite3_step(insert);
		sqlite3_reset(insert);
	}
	sqlite3_finalize(insert);
	run("COMMIT");
	run("CREATE INDEX sale_item ON sale(item)");
	run("CREATE INDEX item_kind ON item(kind, price)");
}

static void query(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		run("SELECT kind, count(*), sum(price), min(name) FROM item GROUP BY kind ORDER BY 3 DESC");
		run("SELECT i.name, sum(s.amount) t FROM sale s JOIN item i ON i.id = s.item WHERE s.day BETWEEN 40 AND 90 GROUP BY i.id ORDER BY t DESC, i.name LIMIT 50");
		run("SELECT count(*) FROM item WHERE note LIKE '%brown fox%7%' OR name GLOB 'item-*[k-q]'");
		run("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<2000) SELECT sum(x*x), group_concat(x%7) FROM c");
		run("SELECT upper(substr(name, 3, 5)), length(note), avg(price) FROM item WHERE kind IN (3,9,27,44) GROUP BY 1, 2 ORDER BY 3 LIMIT 40");
		run("UPDATE item SET price = price * 1.01 WHERE kind = 7");
		run("SELECT day, amount, rank() OVER (PARTITION BY day ORDER BY amount DESC, id) FROM sale WHERE day < 20");
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 12;

	if (sqlite3_open(":memory:", &db) != SQLITE_OK)
		return 1;
	fill(8000);
	query(rounds);
	sqlite3_close(db);
	printf("%016llx\n", checksum);
	return 0;
}
