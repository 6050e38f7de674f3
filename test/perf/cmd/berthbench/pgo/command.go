package pgo

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/pprof/profile"
	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/test/perf/bench"
)

// maxBytes is the largest file that is written, in bytes: it is in git, and every new one stays in its history.
const maxBytes = 256 << 10

// options are the command line.
type options struct {
	profiles []string
	out      string
	keep     float64
}

// New returns the subcommand.
func New() bench.Subcommand { return &options{} }

// Flags implements bench.Subcommand.
func (o *options) Flags(set *pflag.FlagSet) {
	set.StringVar(&o.out, "out", "cmd/berth/default.pgo", "file to write")
	set.Float64Var(&o.keep, "keep", 0.99, "share of the samples that is kept, in the hottest calls; the compiler "+
		"optimises those that have 0.99")
}

// Args implements bench.Positional: processor profiles, as /debug/pprof/profile serves them.
func (o *options) Args(args []string) error {
	if len(args) == 0 {
		return errors.New("no files: want at least one processor profile")
	}
	o.profiles = args
	return nil
}

// Validate implements bench.Subcommand.
func (o *options) Validate() error {
	if o.keep <= 0 || o.keep > 1 {
		return fmt.Errorf("--keep %g: want more than 0 and at most 1", o.keep)
	}
	return nil
}

// Run implements bench.Subcommand.
func (o *options) Run(context.Context) error {
	merged, err := readAll(o.profiles)
	if err != nil {
		return err
	}
	condensed, err := Condense(merged, o.keep)
	if err != nil {
		return err
	}
	size, err := write(o.out, condensed)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes, %d calls, from %d profiles\n", o.out, size, len(condensed.Sample), len(o.profiles))
	return nil
}

// readAll merges the profiles of several processes into one.
func readAll(paths []string) (*profile.Profile, error) {
	var all []*profile.Profile
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		p, err := profile.Parse(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, p)
	}
	return profile.Merge(all)
}

// write puts a profile into a file and returns its size in bytes. It leaves the file alone if it would be too large.
func write(path string, p *profile.Profile) (int, error) {
	data, err := encode(p)
	if err != nil {
		return 0, err
	}
	if len(data) > maxBytes {
		return 0, fmt.Errorf("%s: %d bytes: want at most %d; choose a smaller --keep", path, len(data), maxBytes)
	}
	return len(data), os.WriteFile(path, data, 0o644)
}
