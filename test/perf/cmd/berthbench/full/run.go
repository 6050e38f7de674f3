package full

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// stopGrace is how long a program may take to stop, as it stops the processes that it started.
const stopGrace = 3 * time.Minute

// run runs the parts, also those after one that failed, and prints the table.
func run(ctx context.Context, o options, limits []outcome.Limit) error {
	var failed []error
	for i, p := range o.parts {
		fmt.Fprintf(os.Stderr, "==> %d of %d: %s (a run takes about %s)\n", i+1, len(o.parts), p.name, p.about)
		err := o.one(ctx, p)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	return errors.Join(append(failed, printTable(ctx, o, limits))...)
}

// one runs a part. It removes the results of an earlier run first, so that they are not taken for new ones.
func (o options) one(ctx context.Context, p part) error {
	dir := filepath.Join(o.out, p.name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	line := p.command(o)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopGrace
	err := cmd.Run()
	if _, missing := os.Stat(filepath.Join(dir, outcome.FileName)); err != nil && missing != nil {
		failure := outcome.Outcome{Part: p.name, Time: time.Now().UTC().Truncate(time.Second), Machine: outcome.ThisMachine(),
			Command: outcome.CommandLine(line), Failure: err.Error()}
		return errors.Join(err, failure.Write(dir))
	}
	return err
}

// printTable prints the results, row by row.
func printTable(_ context.Context, o options, limits []outcome.Limit) error {
	seen, err := o.measured()
	if err != nil {
		return err
	}
	fmt.Print(summary(limits, seen))
	return nil
}

// summary is the table of limits with the results of each, Markdown.
func summary(limits []outcome.Limit, seen map[string]*outcome.Outcome) string {
	var b strings.Builder
	b.WriteString("| part | measure | target | seen | relative to the target | verdict | wall |\n" +
		"|---|---|---|---|---|---|---|\n")
	for _, l := range limits {
		state, value := l.Judge(seen)
		number, share, verdict, wall := "–", "–", string(state), "–"
		if state == outcome.Met || state == outcome.NotMet {
			number = outcome.Number(value) + l.Unit
			if by := l.Share(value); by != 0 {
				share = outcome.Number(by) + "x"
			}
		}
		if state == outcome.NotMet {
			verdict = "**not met**"
		}
		if reach, ok := l.Reach(seen); ok {
			wall = outcome.Number(reach) + l.Unit
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", l.Part, l.Says, l.Bound(), number, share, verdict, wall)
	}
	return b.String()
}

// check compares the present outcomes with the accepted ones. Measures without an accepted value are listed, not
// judged.
func check(_ context.Context, o options, limits []outcome.Limit) error {
	now, err := o.measured()
	if err != nil {
		return err
	}
	before, err := readAll(o.acceptedPath)
	if err != nil {
		return err
	}
	var worse []error
	compared := 0
	for _, l := range limits {
		if now[l.Part] == nil || !o.asked(l.Part) {
			continue
		}
		if now[l.Part].Failure != "" {
			worse = append(worse, fmt.Errorf("%s: %s: failed: %s", l.Part, l.Says, now[l.Part].Failure))
			continue
		}
		if state, _ := l.Judge(before); state != outcome.Met && state != outcome.NotMet {
			fmt.Printf("%s: %s: nothing is accepted to compare with: %s\n", l.Part, l.Says, stands(l, now))
			continue
		}
		compared++
		if err := l.Worse(before, now); err != nil {
			worse = append(worse, err)
		}
	}
	if len(worse) == 0 {
		fmt.Printf("%d measures compared with accepted runs, none is worse\n", compared)
	}
	return errors.Join(worse...)
}

// stands is a limit's value and target, or why there is no value.
func stands(l outcome.Limit, of map[string]*outcome.Outcome) string {
	state, value := l.Judge(of)
	if state != outcome.Met && state != outcome.NotMet {
		return string(state)
	}
	return fmt.Sprintf("%s%s, target %s, %s", outcome.Number(value), l.Unit, l.Bound(), state)
}

func (o options) asked(part string) bool {
	for _, p := range o.parts {
		if p.name == part {
			return true
		}
	}
	return false
}

// accept makes the outcomes of the parts the accepted ones; failures are never accepted.
func accept(_ context.Context, o options, _ []outcome.Limit) error {
	now, err := o.measured()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.accepted, 0o755); err != nil {
		return err
	}
	for _, p := range o.parts {
		one := now[p.name]
		if one == nil || one.Failure != "" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(o.out, p.name, outcome.FileName))
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.acceptedPath(p.name), raw, 0o644); err != nil {
			return err
		}
		fmt.Println("accepted:", p.name)
	}
	return nil
}
