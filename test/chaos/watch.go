package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"tandian/test/history"
)

// watch looks whether an instance says of itself that it can sell, and compares that with what buyers are told.
type watch struct {
	town     *town
	instance *instance

	mu    sync.Mutex
	found []string     // guarded by mu: answers that no fault excuses
	said  []readiness  // guarded by mu, in the order of time
	grabs []experience // guarded by mu
}

// readiness is one answer of /readyz.
type readiness struct {
	at    time.Time
	ready bool
}

// experience is how one grab went.
type experience struct {
	began, ended time.Time
	served       bool // an answer that isn't the server's trouble
	text         string
}

// misleads is how long an instance may call itself ready while nobody is served: its answer stands for a second, and
// finding out that a store is silent takes another one.
const misleads = 4 * time.Second

// run asks four times a second until ctx ends.
func (w *watch) run(ctx context.Context) {
	for wait(ctx, 250*time.Millisecond) == nil {
		asking, cancel := context.WithTimeout(ctx, 2*time.Second)
		at := time.Now()
		a, err := w.town.ask(asking, w.instance, "GET", "/readyz", "", "")
		cancel()
		w.mu.Lock()
		w.said = append(w.said, readiness{at, err == nil && a.status == http.StatusOK})
		w.mu.Unlock()
	}
}

// answered notes an answer to a buyer.
func (w *watch) answered(op history.Op, a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grabs = append(w.grabs, experience{op.Start, op.End, a.status > 0 && a.status < 500, fmt.Sprintf("%d %s", a.status, a.code)})
}

// told notes an answer to somebody who deals with an order.
func (w *watch) told(what string, a answer) {
	if a.status != http.StatusInternalServerError {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = append(w.found, fmt.Sprintf("%s answered 500 to %s: %s", w.instance.name, what, a.text))
}

// troubles tells of answers that no fault excuses, and of times in which the instance called itself ready and all of at
// least ten buyers met trouble.
func (w *watch) troubles() (found []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found = w.found
	slices.SortFunc(w.grabs, func(a, b experience) int { return a.ended.Compare(b.ended) })
	first := -1 // of the grabs in a row that met trouble
	for i, g := range w.grabs {
		if g.text == "500 internal" {
			found = append(found, w.instance.name+" answered 500 to a grab")
		}
		if g.served {
			first = -1
			continue
		}
		if first < 0 {
			first = i
		}
		from := w.grabs[first].began
		if i-first >= 10 && g.ended.Sub(from) > misleads && w.readyAllThe(from, g.ended) {
			found = append(found, fmt.Sprintf("%s called itself ready from %s on and served nobody for %v, last with %s", w.instance.name,
				from.Format(time.StampMilli), g.ended.Sub(from).Round(time.Millisecond), g.text))
			first = -1
		}
	}
	return found
}

// readyAllThe reports whether readiness was asked in that time and always said yes. The caller holds mu.
func (w *watch) readyAllThe(from, to time.Time) bool {
	asked := 0
	for _, s := range w.said {
		if s.at.Before(from) || s.at.After(to) {
			continue
		}
		if asked++; !s.ready {
			return false
		}
	}
	return asked > 0
}
