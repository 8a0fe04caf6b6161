-- +goose Up
-- Every new column has a default: an instance of the version before goes on writing its rows beside us. Such a row, and
-- one that the SQL queue has just written, has last_at 0 until package order has taken it in.

ALTER TABLE dead_letter ADD COLUMN state BIGINT NOT NULL DEFAULT 1 CHECK (state IN (1, 2, 3)); -- 1 pending 2 fixed 3 ignored
ALTER TABLE dead_letter ADD COLUMN last_at BIGINT NOT NULL DEFAULT 0; -- when it died last; created_at is the first time
ALTER TABLE dead_letter ADD COLUMN ours BIGINT NOT NULL DEFAULT 0 CHECK (ours IN (0, 1)); -- 1 = not forged, and this version can read it
ALTER TABLE dead_letter ADD COLUMN sent BIGINT NOT NULL DEFAULT 0; -- how often it was sent again
ALTER TABLE dead_letter ADD COLUMN sent_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE dead_letter ADD COLUMN note VARCHAR(255) NOT NULL DEFAULT '';
ALTER TABLE dead_letter ADD COLUMN actor_id BIGINT NOT NULL DEFAULT 0; -- who acted on it last; 0 = the program itself
ALTER TABLE dead_letter ADD COLUMN ended_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX dead_letter_state ON dead_letter (state, id);
CREATE INDEX dead_letter_message ON dead_letter (topic, message_id);

-- The orders that a letter of ours is about.
CREATE TABLE dead_letter_order (
  letter_id  BIGINT NOT NULL,
  order_id   BIGINT NOT NULL,
  pay_before BIGINT NOT NULL, -- of a reservation; 0 otherwise
  PRIMARY KEY (letter_id, order_id)
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;
CREATE INDEX dead_letter_order_order ON dead_letter_order (order_id);

-- What a look at gate, queue and SQL found, and the plan to mend it.
CREATE TABLE reconciliation (
  id          BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  at          BIGINT NOT NULL,
  actor_id    BIGINT NOT NULL, -- 0 = the program itself
  sales       BIGINT NOT NULL, -- looked at
  differences BIGINT NOT NULL,
  report      LONGBLOB NOT NULL, -- JSON
  applied_at  BIGINT NOT NULL DEFAULT 0, -- the plan can be carried out once
  applied_by  BIGINT NOT NULL DEFAULT 0
) DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin ENGINE = InnoDB;

-- +goose Down
DROP TABLE reconciliation;
DROP TABLE dead_letter_order;
DROP INDEX dead_letter_message ON dead_letter;
DROP INDEX dead_letter_state ON dead_letter;
ALTER TABLE dead_letter DROP COLUMN ended_at;
ALTER TABLE dead_letter DROP COLUMN actor_id;
ALTER TABLE dead_letter DROP COLUMN note;
ALTER TABLE dead_letter DROP COLUMN sent_at;
ALTER TABLE dead_letter DROP COLUMN sent;
ALTER TABLE dead_letter DROP COLUMN ours;
ALTER TABLE dead_letter DROP COLUMN last_at;
ALTER TABLE dead_letter DROP COLUMN state;
