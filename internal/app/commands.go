package app

import (
	"context"
	"errors"

	"tandian/internal/account"
	"tandian/internal/config"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/schema"
)

// Migration is one line of MigrationStatus.
type Migration = schema.Migration

// MigrateUp brings the tables to the newest version and returns how many migrations it ran. A server does so by
// itself when it starts.
func MigrateUp(ctx context.Context, cfg *config.Config) (ran int, err error) {
	err = withTables(ctx, cfg, func(db *database) (err error) {
		ran, err = schema.Up(ctx, db.dialect, db.Write.DB)
		return err
	})
	return ran, err
}

// MigrateDown takes the newest migration back, with the data of its tables, and returns the version that is left.
func MigrateDown(ctx context.Context, cfg *config.Config) (version int64, err error) {
	err = withTables(ctx, cfg, func(db *database) (err error) {
		version, err = schema.Down(ctx, db.dialect, db.Write.DB)
		return err
	})
	return version, err
}

// MigrationStatus lists all migrations, oldest first.
func MigrationStatus(ctx context.Context, cfg *config.Config) (list []Migration, err error) {
	err = withTables(ctx, cfg, func(db *database) (err error) {
		list, err = schema.Status(ctx, db.dialect, db.Write.DB)
		return err
	})
	return list, err
}

// withTables opens the database as it is, whatever its version, with no server beside us.
func withTables(ctx context.Context, cfg *config.Config, use func(*database) error) error {
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return err
	}
	return errors.Join(use(db), db.close())
}

// EnsureUser creates the user with the phone, or gives him the role and the password, and has him work for a shop unless
// shopID is 0. It returns shop.ErrNotFound, and has changed nothing, if there is no such shop. It is for the operator's
// command line: nobody's rights are checked.
func (a *App) EnsureUser(ctx context.Context, phone, role, password string, shopID int64) error {
	if shopID != 0 {
		if _, err := a.shops.Find(ctx, id.ID(shopID)); err != nil {
			return err
		}
	}
	userID, err := a.accounts.Ensure(ctx, account.Profile{Phone: phone, Password: password, Roles: []identity.Role{identity.Role(role)}})
	if err != nil || shopID == 0 {
		return err
	}
	return a.shops.Employ(ctx, id.ID(shopID), userID)
}
