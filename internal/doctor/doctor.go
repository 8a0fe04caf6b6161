// Package doctor exists so that what the product stands on is looked at before anything is sold on it: is each store
// there, is it the right one, does it keep what it is given? `tandian doctor` prints every finding; serve looks at the
// stores in the same way before it opens them.
//
// An [Examination] looks at one part and changes nothing that stays: privileges are tried on tables that don't exist,
// writing to Redis and RabbitMQ on a key and a queue that go away by themselves.
//
// A finding never shows a secret. It names users, hosts and databases, which whoever runs the program knows.
package doctor

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Status is the verdict on one check.
type Status string

const (
	OK      Status = "ok"
	Warning Status = "warning" // the product works; what it costs is said
	Failed  Status = "failed"  // selling would be impossible, or wrong
)

// Finding is one line: what was looked at, what was found and what to do about it.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // empty when the status is OK
	// Passing says that a failure may be over by itself: a server that doesn't answer yet.
	Passing bool `json:"passing,omitempty"`
}

func (f Finding) String() string {
	s := f.Check + ": " + f.Found
	if f.Remedy != "" {
		s += "; " + f.Remedy
	}
	return s
}

// Report collects the findings of one examination, in order. It is for one goroutine.
type Report struct {
	findings []Finding
}

func (r *Report) add(f Finding) { r.findings = append(r.findings, f) }

func (r *Report) ok(check, found string, args ...any) {
	r.add(Finding{Check: check, Status: OK, Found: fmt.Sprintf(found, args...)})
}

func (r *Report) warn(check, found, remedy string) {
	r.add(Finding{Check: check, Status: Warning, Found: found, Remedy: remedy})
}

func (r *Report) fail(check, found, remedy string) {
	r.add(Finding{Check: check, Status: Failed, Found: found, Remedy: remedy})
}

// Examination looks at one part of what the product stands on. It returns soon after ctx ends.
type Examination func(ctx context.Context, r *Report)

// Optional is an examination of something that may be missing for a while: what may pass by itself is a warning.
func Optional(examine Examination) Examination {
	return func(ctx context.Context, r *Report) {
		examine(ctx, r)
		for i := range r.findings {
			if f := &r.findings[i]; f.Passing {
				f.Status, f.Passing = Warning, false
			}
		}
	}
}

// Examine runs examinations side by side, for at most timeout, and returns their findings in the order of the list.
func Examine(ctx context.Context, timeout time.Duration, list ...Examination) []Finding {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	reports := make([]Report, len(list))
	var wg sync.WaitGroup
	for i, examine := range list {
		wg.Go(func() { examine(ctx, &reports[i]) })
	}
	wg.Wait()
	var all []Finding
	for _, r := range reports {
		all = append(all, r.findings...)
	}
	return all
}

const (
	skewWarning = time.Second
	skewFailure = 5 * time.Second
)

// clock judges how far a server's clock is from ours. asked and answered are ours around its answer.
func (r *Report) clock(check, whose string, asked, answered, theirs time.Time) {
	half := answered.Sub(asked) / 2
	skew := theirs.Sub(asked.Add(half))
	sure := max(0, skew.Abs()-half) // it may have been read at any moment in between
	found := fmt.Sprintf("%s is %s from this machine's clock", whose, skew.Abs().Round(time.Millisecond))
	const remedy = "let NTP keep both clocks (timedatectl set-ntp true)"
	switch {
	case sure > skewFailure:
		r.fail(check, found+": sales begin and payments end at different moments for different instances", remedy)
	case sure > skewWarning:
		r.warn(check, found+", more than the second that is allowed for", remedy)
	default:
		r.ok(check, "%s", found)
	}
}
