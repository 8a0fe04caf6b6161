package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"tandian/internal/config"
	"tandian/internal/kit/api"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/supervise"
)

// operators lets the command line act on the admin listener as an operator without an account: whoever holds the token,
// which this process has drawn and shows only in its folder. It serves the console's operations, as the API does.
type operators struct {
	token   string
	handler atomic.Pointer[http.Handler] // nil until the program is built
	file    string                       // "" = nobody is invited
}

func newOperators() *operators { return &operators{token: rand.Text()} }

func (o *operators) open(h http.Handler) { o.handler.Store(&h) }

// commandLine marks a request that came with the token.
type commandLine struct{}

// ServeHTTP implements http.Handler.
func (o *operators) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	h := o.handler.Load()
	switch {
	case subtle.ConstantTimeCompare([]byte(given), []byte(o.token)) != 1:
		http.Error(w, "for tandian's own commands; operators use the public listener", http.StatusUnauthorized)
	case h == nil:
		http.Error(w, "starting", http.StatusServiceUnavailable)
	default:
		(*h).ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), commandLine{}, true)))
	}
}

// resolve puts the operator at the command line before everybody else. His id is 0, as that of the program itself.
func (o *operators) resolve(others func(*http.Request) *identity.Caller) func(*http.Request) *identity.Caller {
	return func(r *http.Request) *identity.Caller {
		if r.Context().Value(commandLine{}) != nil {
			return &identity.Caller{User: &identity.User{Nickname: "command line", Roles: []identity.Role{identity.Operator}}}
		}
		return others(r)
	}
}

// invitation is the content of the operator file: readable by whoever may read the stores beside it.
type invitation struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

func operatorFile(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "operator.json") }

// invite writes the file by which commands find this process; file "" = none.
func (o *operators) invite(file, url string) error {
	if file == "" {
		return nil
	}
	b, err := json.Marshal(invitation{url, o.token})
	if err != nil {
		return err
	}
	part := file + ".part"
	if err := os.WriteFile(part, append(b, '\n'), 0o600); err != nil {
		return err
	}
	o.file = file
	return os.Rename(part, file)
}

// disinvite removes the file.
func (o *operators) disinvite() error {
	if o.file == "" {
		return nil
	}
	err := os.Remove(o.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Operator carries out the console's operations for a command. It must be closed.
type Operator struct {
	url, token string
	client     http.Client
	close      func() error
}

// operateTimeout bounds one operation; reconciling reads a good part of the database.
const operateTimeout = 5 * time.Minute

// Operate opens the console's operations to a command. The stores of the production mode are opened beside the running
// servers. Those of the embedded mode belong to one process: if a server holds them it is asked to act, by its admin
// listener; otherwise this process opens them itself.
func Operate(ctx context.Context, cfg *config.Config, log *slog.Logger) (*Operator, error) {
	if !cfg.Production() {
		pid, err := holder(cfg.DataDir)
		if err != nil {
			return nil, err
		}
		if pid != "" {
			return askServer(cfg, pid)
		}
		if _, err := os.Stat(databaseFile(cfg)); errors.Is(err, fs.ErrNotExist) { // rather than make one and find nothing in it
			return nil, fmt.Errorf("--data-dir %s holds no database; name the folder of the server", cfg.DataDir)
		}
	}
	own := *cfg
	own.Addr, own.AdminAddr, own.ReadyFile, own.Demo = "127.0.0.1:0", "127.0.0.1:0", "", false // nobody else is served
	a, err := New(ctx, &own, log)
	if err != nil {
		return nil, err
	}
	if cfg.Production() {
		a.letters.Leave = leaveToServers
	}
	for !a.backend.broker.Up() { // a link that is only just being opened refuses what is sent again
		if !supervise.Sleep(ctx, brokerLook) {
			return nil, errors.Join(ctx.Err(), a.Close())
		}
	}
	return &Operator{url: urlOf(a.admin), token: a.operators.token, close: a.Close}, nil
}

const (
	brokerLook     = 50 * time.Millisecond
	leaveToServers = 5 * time.Second // a server that runs takes a letter in within a second, and its metrics count it
)

// askServer finds the server that holds the folder.
func askServer(cfg *config.Config, pid string) (*Operator, error) {
	b, err := os.ReadFile(operatorFile(cfg))
	if err != nil {
		return nil, fmt.Errorf("--data-dir %s is in use by another tandian (pid %s), and how to reach it can't be read: %w; run this as the user who runs the server, once it serves, or stop it", cfg.DataDir, pid, err)
	}
	var i invitation
	if err := json.Unmarshal(b, &i); err != nil {
		return nil, fmt.Errorf("%s: %w", operatorFile(cfg), err)
	}
	return &Operator{url: i.URL, token: i.Token, close: func() error { return nil }}, nil
}

// RefusedError is the server's refusal of an operation, in its own words.
type RefusedError struct {
	Status int
	Code   string
	Detail string
}

func (e *RefusedError) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("the server answers %d: %s", e.Status, e.Detail)
	}
	return fmt.Sprintf("%s (%s)", e.Detail, e.Code)
}

// Do asks for an operation: path lies below /api/v1/console, in is sent as JSON unless it is nil, and the answer is
// decoded into out. It returns a RefusedError for an answer that is no success.
func (o *Operator) Do(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	ctx, cancel := context.WithTimeout(ctx, operateTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, o.url+api.Prefix+"/console"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+o.token)
	req.Header.Set("Accept-Language", "en")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := o.client.Do(req)
	if err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if res.StatusCode/100 != 2 {
		refused := &RefusedError{Status: res.StatusCode, Detail: strings.TrimSpace(string(answer))}
		var problem struct{ Code, Detail string }
		if json.Unmarshal(answer, &problem) == nil && problem.Code != "" {
			refused.Code, refused.Detail = problem.Code, problem.Detail
		}
		return refused
	}
	return json.Unmarshal(answer, out)
}

// Close releases what was opened.
func (o *Operator) Close() error { return o.close() }
