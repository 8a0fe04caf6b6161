-- +goose Up
-- Tables and indexes only: a binary of the version before reads whole rows of orders and of sale, and a column that it
-- doesn't know would stop it. For the same reason moves get a table of their own; order_history, which never held a
-- row, stays until no binary reads it.

CREATE INDEX orders_due ON orders (status, pay_before);

-- Delayed messages may be many: what is due must be found past them.
CREATE INDEX queue_message_due ON queue_message (topic, visible_at);
DROP INDEX queue_message_topic ON queue_message;

-- Append-only, a line for each move; the beginning is the order's own row. An undone redemption enters paid a second
-- time: what keeps a move from being repeated is the conditional update beside it, not a key here.
CREATE TABLE order_move (
  id          BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  order_id    BIGINT NOT NULL,
  from_status BIGINT NOT NULL,
  to_status   BIGINT NOT NULL,
  reason      VARCHAR(255) NOT NULL DEFAULT '',
  actor       VARCHAR(32) NOT NULL DEFAULT '', -- user id, 'system', or '' for a payment provider
  at          BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE INDEX order_move_order ON order_move (order_id, id);

-- How far the checks of an unpaid order have come; no row = not begun.
CREATE TABLE pay_check (
  order_id    BIGINT NOT NULL PRIMARY KEY,
  check_index BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;

-- What a paid order is redeemed by. It stays when the order is refunded, to tell why it is refused then.
CREATE TABLE redeem_code (
  order_id    BIGINT NOT NULL PRIMARY KEY,
  code        VARCHAR(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- 12 digits
  shop_id     BIGINT NOT NULL,
  valid_until BIGINT NOT NULL,
  open_until  BIGINT, -- valid_until while the order is paid
  redeemed_at BIGINT,
  redeemed_by BIGINT
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE UNIQUE INDEX redeem_code_code ON redeem_code (code);
CREATE INDEX redeem_code_shop ON redeem_code (shop_id, redeemed_at);
CREATE INDEX redeem_code_open ON redeem_code (open_until);

-- An attempt to pay an order. Its id is what the provider knows it by.
CREATE TABLE payment (
  id         BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  order_id   BIGINT NOT NULL,
  provider   VARCHAR(32) NOT NULL,
  amount     BIGINT NOT NULL CHECK (amount >= 0),
  status     BIGINT NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3, 4)), -- 1 open 2 captured 3 closed 4 failed
  trade_no   VARCHAR(64) NOT NULL DEFAULT '', -- the provider's own number, once it is known
  paid_at    BIGINT, -- by the provider's clock
  ask_at     BIGINT, -- when one that ended without money is asked about once more; null = not
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE INDEX payment_order ON payment (order_id);
CREATE INDEX payment_status ON payment (status, updated_at);
CREATE INDEX payment_ask ON payment (ask_at);

-- What a provider has told. It is kept before it is applied; outcome says what that led to.
CREATE TABLE payment_notice (
  provider    VARCHAR(32) NOT NULL,
  notice_id   VARCHAR(64) NOT NULL,
  payment_id  BIGINT NOT NULL,
  order_id    BIGINT NOT NULL,
  body        LONGBLOB NOT NULL,
  received_at BIGINT NOT NULL,
  applied_at  BIGINT,
  outcome     VARCHAR(64) NOT NULL DEFAULT '',
  PRIMARY KEY (provider, notice_id)
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE INDEX payment_notice_applied ON payment_notice (applied_at, received_at);

-- A captured payment is refunded at most once, and whole. Its id is what the provider knows the refund by.
CREATE TABLE refund (
  id         BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  order_id   BIGINT NOT NULL,
  payment_id BIGINT NOT NULL,
  amount     BIGINT NOT NULL CHECK (amount >= 0),
  reason     VARCHAR(32) NOT NULL, -- buyer, operator, late, duplicate, expired
  status     BIGINT NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3)), -- 1 asked 2 done 3 refused
  attempts   BIGINT NOT NULL DEFAULT 0,
  next_at    BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE UNIQUE INDEX refund_payment ON refund (payment_id);
CREATE INDEX refund_order ON refund (order_id);
CREATE INDEX refund_next ON refund (status, next_at);

-- The sandbox provider's own books: another party's, which only the sandbox reads.
CREATE TABLE sandbox_trade (
  trade_no   VARCHAR(64) NOT NULL PRIMARY KEY,
  payment_id BIGINT NOT NULL,
  amount     BIGINT NOT NULL,
  status     BIGINT NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3, 4)), -- 1 open 2 paid 3 closed 4 failed
  paid_at    BIGINT,
  expires_at BIGINT NOT NULL,
  calls      BIGINT NOT NULL DEFAULT 0, -- back to the shop so far
  call_at    BIGINT, -- the next one; null = none
  about      VARCHAR(255) NOT NULL DEFAULT '', -- for the buyer's eyes
  return_to  VARCHAR(255) NOT NULL DEFAULT '', -- where the buyer goes afterwards
  refunds    VARCHAR(16) NOT NULL DEFAULT '', -- how refunds go: '' at once, or slow, unknown, refused
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE UNIQUE INDEX sandbox_trade_payment ON sandbox_trade (payment_id);
CREATE INDEX sandbox_trade_call ON sandbox_trade (call_at);

CREATE TABLE sandbox_refund (
  refund_id  BIGINT NOT NULL PRIMARY KEY,
  trade_no   VARCHAR(64) NOT NULL,
  amount     BIGINT NOT NULL,
  status     BIGINT NOT NULL DEFAULT 1 CHECK (status IN (1, 2, 3)), -- 1 under way 2 done 3 refused
  asked      BIGINT NOT NULL DEFAULT 0, -- how often, the first time included
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;

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
DROP INDEX queue_message_due ON queue_message;
DROP INDEX orders_due ON orders;
