package app

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/pkg/upstreamflags"
)

// foreignFlags are the flags of kube-scheduler or the descheduler that were given, each once, in the order of the
// command line.
type foreignFlags []upstreamflags.Flag

// addForeign adds flags of other programs that the command does not have itself, hidden from its help. It is called
// after the command's own flags have been added.
func (o *options) addForeign(f *pflag.FlagSet, list []upstreamflags.Flag) {
	for _, foreign := range list {
		if f.Lookup(foreign.Name) != nil {
			continue
		}
		flag := f.VarPF(&foreignValue{to: &o.foreign, flag: foreign}, foreign.Name, foreign.Shorthand, foreign.Answer)
		flag.Hidden = true
		if foreign.Switch {
			flag.NoOptDefVal = "true"
		}
	}
}

// foreignValue records that its flag was given, with any value.
type foreignValue struct {
	to   *foreignFlags
	flag upstreamflags.Flag
}

// Set implements pflag.Value.
func (v *foreignValue) Set(string) error {
	given := func(f upstreamflags.Flag) bool { return f.Name == v.flag.Name }
	if !slices.ContainsFunc(*v.to, given) {
		*v.to = append(*v.to, v.flag)
	}
	return nil
}

// String implements pflag.Value.
func (v *foreignValue) String() string { return "" }

// Type implements pflag.Value.
func (v *foreignValue) Type() string { return "string" }

// validate returns an error with one line for each flag that is refused.
func (g foreignFlags) validate() error {
	var errs []error
	for _, f := range g {
		if !f.Ignored {
			errs = append(errs, fmt.Errorf("--%s: not a flag of Berth: %s", f.Name, f.Answer))
		}
	}
	return errors.Join(errs...)
}

// warnings returns one line for each flag that is ignored.
func (g foreignFlags) warnings() []string {
	var lines []string
	for _, f := range g {
		if f.Ignored {
			lines = append(lines, fmt.Sprintf("--%s: no effect: %s", f.Name, f.Answer))
		}
	}
	return lines
}
