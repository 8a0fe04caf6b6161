-- +goose Up
-- Times are Unix milliseconds, money is fen, flags are 0 or 1. mysql/0001_house.sql is the same house in the other dialect;
-- schema_test.go compares the two column by column.

CREATE TABLE users (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,
  phone         TEXT    NOT NULL,
  nickname      TEXT    NOT NULL,
  avatar        TEXT    NOT NULL DEFAULT '',
  password_hash TEXT,
  roles         TEXT    NOT NULL DEFAULT 'shopper', -- comma separated identity.Role
  banned_at     INTEGER,
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX users_phone ON users (phone);

CREATE TABLE category (
  id   INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT    NOT NULL,
  icon TEXT    NOT NULL,
  sort INTEGER NOT NULL
) STRICT;

CREATE TABLE shop (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  category_id INTEGER NOT NULL,
  owner_id    INTEGER,
  name        TEXT    NOT NULL,
  pictures    TEXT    NOT NULL DEFAULT '[]', -- JSON array of paths
  area        TEXT    NOT NULL DEFAULT '',
  address     TEXT    NOT NULL DEFAULT '',
  lng         REAL    NOT NULL,
  lat         REAL    NOT NULL,
  avg_price   INTEGER NOT NULL DEFAULT 0 CHECK (avg_price >= 0),
  sold        INTEGER NOT NULL DEFAULT 0 CHECK (sold >= 0),
  comments    INTEGER NOT NULL DEFAULT 0 CHECK (comments >= 0),
  score       INTEGER NOT NULL DEFAULT 0 CHECK (score BETWEEN 0 AND 50), -- tenths of a star
  open_hours  TEXT    NOT NULL DEFAULT '',
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  CHECK (lng BETWEEN -180 AND 180),
  CHECK (lat BETWEEN -90 AND 90)
) STRICT;
CREATE INDEX shop_category ON shop (category_id);
CREATE INDEX shop_owner ON shop (owner_id);

-- Who works for a shop besides its owner: a clerk redeems for the shops he is bound to.
CREATE TABLE shop_staff (
  shop_id    INTEGER NOT NULL,
  user_id    INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (shop_id, user_id)
) STRICT;
CREATE INDEX shop_staff_user ON shop_staff (user_id);

CREATE TABLE voucher (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  shop_id    INTEGER NOT NULL,
  title      TEXT    NOT NULL,
  sub_title  TEXT    NOT NULL DEFAULT '',
  rules      TEXT    NOT NULL DEFAULT '',
  pay_value  INTEGER NOT NULL CHECK (pay_value > 0),
  face_value INTEGER NOT NULL CHECK (face_value > 0),
  valid_days INTEGER NOT NULL DEFAULT 30 CHECK (valid_days BETWEEN 1 AND 730),
  status     INTEGER NOT NULL DEFAULT 1 CHECK (status IN (1, 2)), -- 1 on sale, 2 off the shelf
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX voucher_shop ON voucher (shop_id);

-- A flash sale. stock is what is left; stock_released is all that was ever put up: the first stock and every top-up.
-- version is raised by every change of terms or released stock, so that a gate keeps the newest.
CREATE TABLE sale (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  voucher_id     INTEGER NOT NULL,
  stock          INTEGER NOT NULL CHECK (stock >= 0),
  stock_released INTEGER NOT NULL,
  begins_at      INTEGER NOT NULL,
  ends_at        INTEGER NOT NULL,
  limit_per_user INTEGER NOT NULL DEFAULT 1 CHECK (limit_per_user BETWEEN 1 AND 63),
  paused         INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  epoch          INTEGER NOT NULL DEFAULT 0, -- raised by each rebuild of the gate
  version        INTEGER NOT NULL DEFAULT 1,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  CHECK (ends_at > begins_at),
  CHECK (begins_at >= 1577836800000 AND ends_at < 4102444800000), -- 2020 to 2100: what any client can read
  CHECK (stock <= stock_released)
) STRICT;
CREATE UNIQUE INDEX sale_voucher ON sale (voucher_id);
CREATE INDEX sale_ends ON sale (ends_at);

-- The truth about every accepted order id. A tombstone is a row with status 7 (failed): it holds no slot and, after a
-- refusal, no request id.
-- UNIQUE (sale, user, slot) with a nullable slot = at most limit_per_user live orders; a closed order frees its slot.
CREATE TABLE orders (
  id          INTEGER PRIMARY KEY,
  sale_id     INTEGER NOT NULL,
  voucher_id  INTEGER NOT NULL,
  user_id     INTEGER NOT NULL,
  slot        INTEGER CHECK (slot BETWEEN 0 AND 62),
  request_id  TEXT,
  status      INTEGER NOT NULL CHECK (status BETWEEN 1 AND 7), -- 1 unpaid 2 paid 3 used 4 closed 5 refunding 6 refunded 7 failed
  reason      TEXT    NOT NULL DEFAULT '',
  amount      INTEGER NOT NULL CHECK (amount >= 0),
  admitted_at INTEGER NOT NULL,
  pay_before  INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL,
  CHECK ((slot IS NULL) = (status IN (4, 6, 7)))
) STRICT;
CREATE UNIQUE INDEX orders_slot ON orders (sale_id, user_id, slot);
CREATE UNIQUE INDEX orders_request ON orders (user_id, sale_id, request_id);

-- Append-only, a line for each move; the beginning is the order's own row. No status is entered twice, so the key itself
-- refuses a repeated move.
CREATE TABLE order_history (
  order_id    INTEGER NOT NULL,
  to_status   INTEGER NOT NULL,
  from_status INTEGER NOT NULL,
  reason      TEXT    NOT NULL DEFAULT '',
  at          INTEGER NOT NULL,
  PRIMARY KEY (order_id, to_status)
) STRICT, WITHOUT ROWID;

-- A unit and a slot that the gate still has to take back; written by the transaction that ended the order.
CREATE TABLE gate_release (
  order_id       INTEGER PRIMARY KEY,
  sale_id        INTEGER NOT NULL,
  forget_request INTEGER NOT NULL CHECK (forget_request IN (0, 1)),
  created_at     INTEGER NOT NULL
) STRICT;

-- Messages that a committed transaction promised; deleted when the broker has them.
CREATE TABLE outbox (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  topic      TEXT    NOT NULL,
  message_id TEXT    NOT NULL,
  body       BLOB    NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE id_lease (
  name     TEXT    PRIMARY KEY,
  next     INTEGER NOT NULL,
  floor_at INTEGER NOT NULL -- seconds
) STRICT, WITHOUT ROWID;
INSERT INTO id_lease (name, next, floor_at) VALUES ('order', 1, 0);

-- The queue of the embedded mode.
CREATE TABLE queue_message (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  topic      TEXT    NOT NULL,
  message_id TEXT    NOT NULL,
  body       BLOB    NOT NULL,
  attempts   INTEGER NOT NULL DEFAULT 0,
  visible_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX queue_message_topic ON queue_message (topic, id);

CREATE TABLE dead_letter (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  topic      TEXT    NOT NULL,
  message_id TEXT    NOT NULL,
  body       BLOB    NOT NULL,
  reason     TEXT    NOT NULL,
  attempts   INTEGER NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

-- What operators and owners changed, and why.
CREATE TABLE audit_log (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  at       INTEGER NOT NULL,
  actor_id INTEGER NOT NULL,
  action   TEXT    NOT NULL,
  subject  TEXT    NOT NULL,
  detail   TEXT    NOT NULL
) STRICT;
CREATE INDEX audit_log_subject ON audit_log (subject, id);

-- Sessions, codes and counters of the embedded mode; Redis holds them in production.
CREATE TABLE kv_entry (
  k          TEXT    PRIMARY KEY,
  v          BLOB    NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
DROP TABLE kv_entry;
DROP TABLE audit_log;
DROP TABLE dead_letter;
DROP TABLE queue_message;
DROP TABLE id_lease;
DROP TABLE outbox;
DROP TABLE gate_release;
DROP TABLE order_history;
DROP TABLE orders;
DROP TABLE sale;
DROP TABLE voucher;
DROP TABLE shop_staff;
DROP TABLE shop;
DROP TABLE category;
DROP TABLE users;
