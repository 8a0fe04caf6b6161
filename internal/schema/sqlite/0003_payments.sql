-- +goose Up
-- Tables and indexes only: a binary of the version before reads whole rows of orders and of sale, and a column that it
-- doesn't know would stop it. For the same reason moves get a table of their own; order_history, which never held a
-- row, stays until no binary reads it.

CREATE INDEX orders_due ON orders (status, pay_before);

-- Delayed messages may be many: what is due must be found past them.
CREATE INDEX queue_message_due ON queue_message (topic, visible_at);
DROP INDEX queue_message_topic;

-- Append-only, a line for each move; the beginning is the order's own row. An undone redemption enters paid a second
-- time: what keeps a move from being repeated is the conditional update beside it, not a key here.
CREATE TABLE order_move (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  order_id    INTEGER NOT NULL,
  from_status INTEGER NOT NULL,
  to_status   INTEGER NOT NULL,
  reason      TEXT NOT NULL DEFAULT '',
  actor       TEXT NOT NULL DEFAULT '', -- user id, 'system', or '' for a payment provider
  at          INTEGER NOT NULL
) STRICT;
CREATE INDEX order_move_order ON order_move (order_id, id);

-- How far the checks of an unpaid order have come; no row = not begun.
CREATE TABLE pay_check (
  order_id    INTEGER PRIMARY KEY,
  check_index INTEGER NOT NULL
) STRICT;

-- What a paid order is redeemed by. It stays when the order is refunded, to tell why it is refused then.
CREATE TABLE redeem_code (
  order_id    INTEGER PRIMARY KEY,
  code        TEXT NOT NULL, -- 12 digits
  shop_id     INTEGER NOT NULL,
  valid_until INTEGER NOT NULL,
  open_until  INTEGER, -- valid_until while the order is paid
  redeemed_at INTEGER,
  redeemed_by INTEGER
) STRICT;
CREATE UNIQUE INDEX redeem_code_code ON redeem_code (code);
CREATE INDEX redeem_code_shop ON redeem_code (shop_id, redeemed_at);
CREATE INDEX redeem_code_open ON redeem_code (open_until);

-- An attempt to pay an order. Its id is what the provider knows it by.
CREATE TABLE payment (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  order_id   INTEGER NOT NULL,
  provider   TEXT NOT NULL,
  amount     INTEGER NOT NULL CHECK (amount >= 0),
  status     INTEGER NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3, 4)), -- 1 open 2 captured 3 closed 4 failed
  trade_no   TEXT NOT NULL DEFAULT '', -- the provider's own number, once it is known
  paid_at    INTEGER, -- by the provider's clock
  ask_at     INTEGER, -- when one that ended without money is asked about once more; null = not
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX payment_order ON payment (order_id);
CREATE INDEX payment_status ON payment (status, updated_at);
CREATE INDEX payment_ask ON payment (ask_at);

-- What a provider has told. It is kept before it is applied; outcome says what that led to.
CREATE TABLE payment_notice (
  provider    TEXT NOT NULL,
  notice_id   TEXT NOT NULL,
  payment_id  INTEGER NOT NULL,
  order_id    INTEGER NOT NULL,
  body        BLOB NOT NULL,
  received_at INTEGER NOT NULL,
  applied_at  INTEGER,
  outcome     TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (provider, notice_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX payment_notice_applied ON payment_notice (applied_at, received_at);

-- A captured payment is refunded at most once, and whole. Its id is what the provider knows the refund by.
CREATE TABLE refund (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  order_id   INTEGER NOT NULL,
  payment_id INTEGER NOT NULL,
  amount     INTEGER NOT NULL CHECK (amount >= 0),
  reason     TEXT NOT NULL, -- buyer, operator, late, duplicate, expired
  status     INTEGER NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3)), -- 1 asked 2 done 3 refused
  attempts   INTEGER NOT NULL DEFAULT 0,
  next_at    INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX refund_payment ON refund (payment_id);
CREATE INDEX refund_order ON refund (order_id);
CREATE INDEX refund_next ON refund (status, next_at);

-- The sandbox provider's own books: another party's, which only the sandbox reads.
CREATE TABLE sandbox_trade (
  trade_no   TEXT NOT NULL PRIMARY KEY,
  payment_id INTEGER NOT NULL,
  amount     INTEGER NOT NULL,
  status     INTEGER NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3, 4)), -- 1 open 2 paid 3 closed 4 failed
  paid_at    INTEGER,
  expires_at INTEGER NOT NULL,
  calls      INTEGER NOT NULL DEFAULT 0, -- back to the shop so far
  call_at    INTEGER, -- the next one; null = none
  about      TEXT NOT NULL DEFAULT '', -- for the buyer's eyes
  return_to  TEXT NOT NULL DEFAULT '', -- where the buyer goes afterwards
  refunds    TEXT NOT NULL DEFAULT '', -- how refunds go: '' at once, or slow, unknown, refused
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX sandbox_trade_payment ON sandbox_trade (payment_id);
CREATE INDEX sandbox_trade_call ON sandbox_trade (call_at);

CREATE TABLE sandbox_refund (
  refund_id  INTEGER PRIMARY KEY,
  trade_no   TEXT NOT NULL,
  amount     INTEGER NOT NULL,
  status     INTEGER NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3)), -- 1 under way 2 done 3 refused
  asked      INTEGER NOT NULL DEFAULT 0, -- how often, the first time included
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

-- +goose Down
DROP TABLE sandbox_refund;
DROP TABLE sandbox_trade;
DROP TABLE refund;
DROP TABLE payment_notice;
DROP TABLE payment;
DROP TABLE redeem_code;
DROP TABLE pay_check;
DROP TABLE order_move;
CREATE INDEX queue_message_topic ON queue_message (topic, id);
DROP INDEX queue_message_due;
DROP INDEX orders_due;
