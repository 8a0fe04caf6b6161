package doctor

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tandian/internal/kit/store"
	"tandian/internal/schema"
)

// embeddedOnly are tables of the embedded mode, whose production home is Redis.
var embeddedOnly = []string{"kv_entry"}

// house is what migrations build: the columns of each table, and its indexes with "unique" in front of those that are.
type house map[string]map[string]bool

func (h house) add(table, part string) {
	if h[table] == nil {
		h[table] = map[string]bool{}
	}
	h[table][part] = true
}

// blueprint builds the house of this binary's migrations in memory. The other dialect has the same tables, columns and
// indexes; a test of package schema sees to that.
func blueprint(ctx context.Context) (h house, versions []int64, err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := schema.Up(ctx, schema.SQLite, db); err != nil {
		return nil, nil, err
	}
	list, err := schema.Status(ctx, schema.SQLite, db)
	if err != nil {
		return nil, nil, err
	}
	for _, m := range list {
		versions = append(versions, m.Version)
	}
	if h, err = survey(ctx, db, sqliteHouse); err != nil {
		return nil, nil, err
	}
	for _, table := range embeddedOnly {
		delete(h, table)
	}
	return h, versions, nil
}

// sqliteHouse is a survey of SQLite's tables.
const sqliteHouse = `
		SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND m.name <> 'goose_db_version'
		UNION ALL
		SELECT m.name, CASE i."unique" WHEN 1 THEN 'unique ' ELSE '' END || 'index ' || i.name FROM sqlite_master m JOIN pragma_index_list(m.name) i
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND i.origin = 'c'`

// survey reads rows of table and part.
func survey(ctx context.Context, db *sql.DB, query string) (house, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	h := house{}
	for rows.Next() {
		var table, part string
		if err := rows.Scan(&table, &part); err != nil {
			return nil, err
		}
		h.add(table, part)
	}
	return h, rows.Err()
}

// missing lists what the blueprint has and the house doesn't.
func missing(blueprint, h house) (list []string) {
	for _, table := range slices.Sorted(maps.Keys(blueprint)) {
		if h[table] == nil {
			list = append(list, "table "+table)
			continue
		}
		for _, part := range slices.Sorted(maps.Keys(blueprint[table])) {
			if !h[table][part] {
				list = append(list, table+" "+part)
			}
		}
	}
	return list
}

// tables compares the tables with the migrations, and looks at what decides whether rows are kept as they were given.
func (e *mysqlExamination) tables(ctx context.Context) error {
	plan, versions, err := blueprint(ctx)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	var versioned bool
	err = e.db.Read.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'goose_db_version'").Scan(&versioned)
	if err != nil {
		return err
	}
	pending, complete, err := e.migrations(ctx, e.db, versioned, versions)
	if err != nil {
		return err
	}
	e.migrator(pending)
	if !complete {
		return nil
	}
	h, err := survey(ctx, e.db.Read.DB, `
		SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = DATABASE()
		UNION ALL
		SELECT table_name, CONCAT(IF(non_unique = 0, 'unique ', ''), 'index ', index_name) FROM information_schema.statistics WHERE table_schema = DATABASE()`)
	if err != nil {
		return err
	}
	if !e.complete(plan, h, versions) {
		return nil
	}
	return e.storage(ctx, plan)
}

// migrations judges which have been run: some are pending, or the tables must be as this program makes them, or neither
// because a newer one has changed them.
func (r *Report) migrations(ctx context.Context, db *store.DB, versioned bool, known []int64) (pending, complete bool, err error) {
	var applied []int64
	if versioned {
		if err := db.Read.NewRaw("SELECT DISTINCT version_id FROM goose_db_version WHERE is_applied = 1").Scan(ctx, &applied); err != nil {
			return false, false, err
		}
	}
	waiting := slices.DeleteFunc(slices.Clone(known), func(v int64) bool { return slices.Contains(applied, v) })
	if len(waiting) > 0 {
		r.ok("database tables", "%d of %d migrations to run; serve and migrate up do it", len(waiting), len(known))
		return true, false, nil
	}
	if ours, theirs := slices.Max(known), slices.Max(applied); theirs > ours {
		r.warn("database tables", fmt.Sprintf("at version %d, newer than the %d of this program", theirs, ours),
			"run the newer program, unless an update is under way or being taken back")
		return false, false, nil
	}
	return false, true, nil
}

func (r *Report) complete(plan, h house, versions []int64) bool {
	if lost := missing(plan, h); lost != nil {
		r.fail("database tables", fmt.Sprintf("at version %d, but missing: %s", slices.Max(versions), some(lost)), "restore them from a backup, or as the migrations make them")
		return false
	}
	r.ok("database tables", "%d tables at version %d", len(plan), slices.Max(versions))
	return true
}

// storage looks at character sets and engines. What the database gives to new tables doesn't matter: each of ours
// brings its own.
func (e *mysqlExamination) storage(ctx context.Context, plan house) error {
	h, err := survey(ctx, e.db.Read.DB, `
		SELECT table_name, CONCAT(column_name, ' (', character_set_name, ')') FROM information_schema.columns
		WHERE table_schema = DATABASE() AND character_set_name NOT IN ('utf8mb4', 'ascii', 'binary')
		UNION ALL
		SELECT table_name, CONCAT('engine ', engine) FROM information_schema.tables WHERE table_schema = DATABASE() AND engine <> 'InnoDB'`)
	if err != nil {
		return err
	}
	var narrow, weak []string
	for _, table := range slices.Sorted(maps.Keys(plan)) {
		for _, part := range slices.Sorted(maps.Keys(h[table])) {
			if engine, ok := strings.CutPrefix(part, "engine "); ok {
				weak = append(weak, table+" ("+engine+")")
			} else {
				narrow = append(narrow, table+"."+part)
			}
		}
	}
	if weak != nil {
		e.fail("database storage", "without transactions: "+some(weak), "ALTER TABLE … ENGINE = InnoDB")
	}
	if narrow != nil {
		e.fail("database storage", "columns that can't hold every text: "+some(narrow), "ALTER TABLE … CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
	}
	if weak == nil && narrow == nil {
		e.ok("database storage", "InnoDB, utf8mb4")
	}
	return nil
}

// some is a list for one line.
func some(list []string) string {
	const most = 3
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}
