-- +goose Up
-- What is known of one sale, by an index: while a gate can't be told, these rows gather.
CREATE INDEX gate_release_sale ON gate_release (sale_id);

-- +goose Down
DROP INDEX gate_release_sale;
