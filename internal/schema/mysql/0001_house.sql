-- +goose Up
-- Times are Unix milliseconds, money is fen, flags are 0 or 1. sqlite/0001_house.sql is the same house in the other dialect;
-- schema_test.go compares the two column by column.

CREATE TABLE users (
  id            BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  phone         VARCHAR(16) NOT NULL,
  nickname      VARCHAR(64) NOT NULL,
  avatar        VARCHAR(255) NOT NULL DEFAULT '',
  password_hash VARCHAR(255),
  roles         VARCHAR(128) NOT NULL DEFAULT 'shopper', -- comma separated identity.Role
  banned_at     BIGINT,
  created_at    BIGINT NOT NULL,
  updated_at    BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE UNIQUE INDEX users_phone ON users (phone);

CREATE TABLE category (
  id   BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  name VARCHAR(128) NOT NULL,
  icon VARCHAR(255) NOT NULL,
  sort BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;

CREATE TABLE shop (
  id          BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  category_id BIGINT NOT NULL,
  owner_id    BIGINT,
  name        VARCHAR(128) NOT NULL,
  pictures    VARCHAR(2048) NOT NULL DEFAULT '[]', -- JSON array of paths
  area        VARCHAR(128) NOT NULL DEFAULT '',
  address     VARCHAR(255) NOT NULL DEFAULT '',
  lng         DOUBLE    NOT NULL,
  lat         DOUBLE    NOT NULL,
  avg_price   BIGINT NOT NULL DEFAULT 0 CHECK (avg_price >= 0),
  sold        BIGINT NOT NULL DEFAULT 0 CHECK (sold >= 0),
  comments    BIGINT NOT NULL DEFAULT 0 CHECK (comments >= 0),
  score       BIGINT NOT NULL DEFAULT 0 CHECK (score BETWEEN 0 AND 50), -- tenths of a star
  open_hours  VARCHAR(64) NOT NULL DEFAULT '',
  created_at  BIGINT NOT NULL,
  updated_at  BIGINT NOT NULL,
  CHECK (lng BETWEEN -180 AND 180),
  CHECK (lat BETWEEN -90 AND 90)
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE INDEX shop_category ON shop (category_id);
CREATE INDEX shop_owner ON shop (owner_id);

-- Who works for a shop besides its owner: a clerk redeems for the shops he is bound to.
CREATE TABLE shop_staff (
  shop_id    BIGINT NOT NULL,
  user_id    BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (shop_id, user_id)
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE INDEX shop_staff_user ON shop_staff (user_id);

CREATE TABLE voucher (
  id         BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  shop_id    BIGINT NOT NULL,
  title      VARCHAR(255) NOT NULL,
  sub_title  VARCHAR(255) NOT NULL DEFAULT '',
  rules      VARCHAR(2048) NOT NULL DEFAULT '',
  pay_value  BIGINT NOT NULL CHECK (pay_value > 0),
  face_value BIGINT NOT NULL CHECK (face_value > 0),
  valid_days BIGINT NOT NULL DEFAULT 30 CHECK (valid_days BETWEEN 1 AND 730),
  status     BIGINT NOT NULL DEFAULT 1 CHECK (status IN (1, 2)), -- 1 on sale, 2 off the shelf
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE INDEX voucher_shop ON voucher (shop_id);

-- A flash sale. stock is what is left; stock_released is all that was ever put up: the first stock and every top-up.
-- version is raised by every change of terms or released stock, so that a gate keeps the newest.
CREATE TABLE sale (
  id             BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  voucher_id     BIGINT NOT NULL,
  stock          BIGINT NOT NULL CHECK (stock >= 0),
  stock_released BIGINT NOT NULL,
  begins_at      BIGINT NOT NULL,
  ends_at        BIGINT NOT NULL,
  limit_per_user BIGINT NOT NULL DEFAULT 1 CHECK (limit_per_user BETWEEN 1 AND 63),
  paused         BIGINT NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  epoch          BIGINT NOT NULL DEFAULT 0, -- raised by each rebuild of the gate
  version        BIGINT NOT NULL DEFAULT 1,
  created_at     BIGINT NOT NULL,
  updated_at     BIGINT NOT NULL,
  CHECK (ends_at > begins_at),
  CHECK (begins_at >= 1577836800000 AND ends_at < 4102444800000), -- 2020 to 2100: what any client can read
  CHECK (stock <= stock_released)
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE UNIQUE INDEX sale_voucher ON sale (voucher_id);
CREATE INDEX sale_ends ON sale (ends_at);

-- The truth about every accepted order id. A tombstone is a row with status 7 (failed): it holds no slot and, after a
-- refusal, no request id.
-- UNIQUE (sale, user, slot) with a nullable slot = at most limit_per_user live orders; a closed order frees its slot.
CREATE TABLE orders (
  id          BIGINT NOT NULL PRIMARY KEY,
  sale_id     BIGINT NOT NULL,
  voucher_id  BIGINT NOT NULL,
  user_id     BIGINT NOT NULL,
  slot        BIGINT CHECK (slot BETWEEN 0 AND 62),
  request_id  VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
  status      BIGINT NOT NULL CHECK (status BETWEEN 1 AND 7), -- 1 unpaid 2 paid 3 used 4 closed 5 refunding 6 refunded 7 failed
  reason      VARCHAR(255) NOT NULL DEFAULT '',
  amount      BIGINT NOT NULL CHECK (amount >= 0),
  admitted_at BIGINT NOT NULL,
  pay_before  BIGINT NOT NULL,
  created_at  BIGINT NOT NULL,
  updated_at  BIGINT NOT NULL,
  CHECK ((slot IS NULL) = (status IN (4, 6, 7)))
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE UNIQUE INDEX orders_slot ON orders (sale_id, user_id, slot);
CREATE UNIQUE INDEX orders_request ON orders (user_id, sale_id, request_id);

-- Append-only, a line for each move; the beginning is the order's own row. No status is entered twice, so the key itself
-- refuses a repeated move.
CREATE TABLE order_history (
  order_id    BIGINT NOT NULL,
  to_status   BIGINT NOT NULL,
  from_status BIGINT NOT NULL,
  reason      VARCHAR(255) NOT NULL DEFAULT '',
  at          BIGINT NOT NULL,
  PRIMARY KEY (order_id, to_status)
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;

-- A unit and a slot that the gate still has to take back; written by the transaction that ended the order.
CREATE TABLE gate_release (
  order_id       BIGINT NOT NULL PRIMARY KEY,
  sale_id        BIGINT NOT NULL,
  forget_request BIGINT NOT NULL CHECK (forget_request IN (0, 1)),
  created_at     BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;

-- Messages that a committed transaction promised; deleted when the broker has them.
CREATE TABLE outbox (
  id         BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  topic      VARCHAR(64) NOT NULL,
  message_id VARCHAR(64) NOT NULL,
  body       LONGBLOB    NOT NULL,
  created_at BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;

CREATE TABLE id_lease (
  name     VARCHAR(128) PRIMARY KEY,
  next     BIGINT NOT NULL,
  floor_at BIGINT NOT NULL -- seconds
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
INSERT INTO id_lease (name, next, floor_at) VALUES ('order', 1, 0);

-- The queue of the SQL broker.
CREATE TABLE queue_message (
  id         BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  topic      VARCHAR(64) NOT NULL,
  message_id VARCHAR(64) NOT NULL,
  body       LONGBLOB    NOT NULL,
  attempts   BIGINT NOT NULL DEFAULT 0,
  visible_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE INDEX queue_message_topic ON queue_message (topic, id);

CREATE TABLE dead_letter (
  id         BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  topic      VARCHAR(64) NOT NULL,
  message_id VARCHAR(64) NOT NULL,
  body       LONGBLOB    NOT NULL,
  reason     VARCHAR(255) NOT NULL,
  attempts   BIGINT NOT NULL,
  created_at BIGINT NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;

-- What operators and owners changed, and why.
CREATE TABLE audit_log (
  id       BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  at       BIGINT NOT NULL,
  actor_id BIGINT NOT NULL,
  action   VARCHAR(64) NOT NULL,
  subject  VARCHAR(128) NOT NULL,
  detail   VARCHAR(4096) NOT NULL
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE INDEX audit_log_subject ON audit_log (subject, id);

-- +goose Down
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
