// Command tandian is the whole product in one binary: server, migrations, load generator and the tools around them.
// Alone it runs the demo town on embedded stores.
//
// Exit codes: 0 done, 1 failed, 2 the command line or a setting is wrong, 3 bench found a broken invariant or a missed
// threshold, doctor a check that failed, or reconcile a difference.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"tandian/internal/bench"
	"tandian/internal/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, os.LookupEnv)
	stop()
	os.Exit(code)
}

const (
	exitDone      = 0
	exitFailed    = 1
	exitUsage     = 2
	exitViolation = 3
)

// commandLine is the grammar; each command is a struct with a Run method.
type commandLine struct {
	Demo        demoCommand        `cmd:"" default:"withargs" help:"Everything in one process with the demo town: what tandian alone does."`
	Serve       serveCommand       `cmd:"" help:"Serve the shop and the API."`
	Migrate     migrateCommand     `cmd:"" help:"Bring the database to another version of the schema."`
	Seed        seedCommand        `cmd:"" help:"Put the demo town into an empty database."`
	Admin       adminCommand       `cmd:"" help:"Accounts with more rights."`
	Dlq         dlqCommand         `cmd:"" help:"Dead letters: messages that wait for a person."`
	Reconcile   reconcileCommand   `cmd:"" help:"Compare gate and database, and mend what differs; exit code 3 if something does."`
	Bench       benchCommand       `cmd:"" help:"Load a server and judge what happened."`
	Doctor      doctorCommand      `cmd:"" help:"Look at everything the server would stand on; exit code 3 if something is wrong."`
	Config      configCommand      `cmd:"" help:"Show, check or begin a configuration."`
	OpenAPI     openAPICommand     `cmd:"" name:"openapi" help:"Print the OpenAPI document."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask a running server whether it is ready; for containers."`
	Version     versionCommand     `cmd:"" help:"Print version and build."`
}

// program is what commands get besides their own flags.
type program struct {
	stdout, stderr io.Writer
	lookupEnv      func(string) (string, bool)
	sources        *config.Sources
}

// usageError is a mistake in the command line or a setting: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run is main without the process: it parses args, runs the command until ctx ends, writes errors to stderr, one line
// each, and returns the exit code. lookupEnv reads the environment.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, lookupEnv func(string) (string, bool)) int {
	p := &program{stdout: stdout, stderr: stderr, lookupEnv: lookupEnv, sources: config.NewSources(lookupEnv)}
	err := p.run(ctx, args)
	if err == nil {
		return exitDone
	}
	for line := range strings.Lines(explain(err)) {
		fmt.Fprintf(stderr, "tandian: %s\n", strings.TrimSuffix(line, "\n"))
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var usage usageError
	var violation *bench.ViolationError
	var difference differenceError
	var ill illError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &violation), errors.As(err, &ill), errors.As(err, &difference):
		return exitViolation
	}
	return exitFailed
}

func (p *program) run(ctx context.Context, args []string) error {
	helped := false
	parser, err := kong.New(&commandLine{},
		kong.Name("tandian"), kong.Description("探店 Tandian: local shops, vouchers and flash sales that are never oversold."),
		kong.Writers(p.stdout, p.stderr), kong.Exit(func(int) { helped = true }), // --help has printed; go on to return from here
		kong.Resolvers(p.sources), kong.Groups(config.Groups()), kong.ValueFormatter(helpWithEnv),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(p))
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped:
		return nil
	case err != nil:
		return usageError{fmt.Errorf("%w; see %s", err, helpFor(err))}
	}
	return parsed.Run()
}

// helpFor is the command that explains what was typed wrongly. The default command counts only if it was typed.
func helpFor(err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil && slices.Contains(parse.Context.Args, node.Name) {
			return node.FullPath() + " --help"
		}
	}
	return "tandian --help"
}

// helpWithEnv adds the environment variable to a setting's help. Kong would do so by itself if it read the
// environment, but then it would read that of the process and put it below the file.
func helpWithEnv(v *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(v)
	if v.Flag != nil && v.Flag.Group != nil && config.Groups()[v.Flag.Group.Key] != "" {
		help += " [" + config.EnvName(v.Name) + "]"
	}
	return help
}
