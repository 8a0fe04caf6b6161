package flashsale

import (
	"testing"

	"tandian/internal/kit/api"
)

// ListPages walks all pages of a list and returns how many rows it saw.
func ListPages(t *testing.T, s *Service, state State, size int, each func(*Sale)) (rows int) {
	t.Helper()
	cursor := ""
	for {
		var after *saleCursor
		if err := api.DecodeCursor(cursor, &after); err != nil {
			t.Fatal(err)
		}
		sales, err := s.List(t.Context(), state, after, size+1)
		if err != nil {
			t.Fatal(err)
		}
		page := api.Cut(sales, size, cursorOf(state))
		for _, sale := range page.Items {
			rows++
			each(sale)
		}
		if cursor = page.NextCursor; cursor == "" {
			return rows
		}
	}
}

// Remembered is how many sales the gate keeps something about in this process.
func (g *RedisGate) Remembered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.sales)
}
