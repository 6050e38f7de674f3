package foreign

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/pkg/upstreamflags"
)

// Flags are the flags of kube-scheduler or the descheduler that were given, each once, in the order of the command
// line.
type Flags []upstreamflags.Flag

// Add adds flags of other programs that the command does not have itself, hidden from its help. It is called after the
// command's own flags have been added.
func (g *Flags) Add(f *pflag.FlagSet, list []upstreamflags.Flag) {
	for _, foreign := range list {
		if f.Lookup(foreign.Name) != nil {
			continue
		}
		flag := f.VarPF(&Value{to: g, flag: foreign}, foreign.Name, foreign.Shorthand, foreign.Answer)
		flag.Hidden = true
		if foreign.Switch {
			flag.NoOptDefVal = "true"
		}
	}
}

// Value records that its flag was given, with any value.
type Value struct {
	to   *Flags
	flag upstreamflags.Flag
}

// Set implements pflag.Value.
func (v *Value) Set(string) error {
	given := func(f upstreamflags.Flag) bool { return f.Name == v.flag.Name }
	if !slices.ContainsFunc(*v.to, given) {
		*v.to = append(*v.to, v.flag)
	}
	return nil
}

// String implements pflag.Value.
func (v *Value) String() string { return "" }

// Type implements pflag.Value.
func (v *Value) Type() string { return "string" }

// Validate returns an error with one line for each flag that is refused.
func (g Flags) Validate() error {
	var errs []error
	for _, f := range g {
		if !f.Ignored {
			errs = append(errs, fmt.Errorf("--%s: not a flag of Berth: %s", f.Name, f.Answer))
		}
	}
	return errors.Join(errs...)
}

// Warnings returns one line for each flag that is ignored.
func (g Flags) Warnings() []string {
	var lines []string
	for _, f := range g {
		if f.Ignored {
			lines = append(lines, fmt.Sprintf("--%s: no effect: %s", f.Name, f.Answer))
		}
	}
	return lines
}
