package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Subcommand is one measurement.
type Subcommand interface {
	// Flags adds the flags, with their defaults.
	Flags(set *pflag.FlagSet)
	// Validate returns an error that names the flag, its value and the values that are accepted.
	Validate() error
	// Run measures and writes the report.
	Run(ctx context.Context) error
}

// Positional is a subcommand that takes more than flags.
type Positional interface {
	Subcommand
	// Args takes the arguments that are not flags.
	Args(args []string) error
}

// Command returns the command of a subcommand. The first word of use is its name.
func Command(use, short string, s Subcommand) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return s.Validate() },
		RunE:    func(c *cobra.Command, _ []string) error { return s.Run(c.Context()) },
	}
	if p, ok := s.(Positional); ok {
		c.Args = func(_ *cobra.Command, args []string) error { return p.Args(args) }
	}
	s.Flags(c.Flags())
	return c
}

// Parse parses and validates a command line without running it.
func Parse(s Subcommand, args ...string) error {
	c := Command("parse", "", s)
	c.RunE = func(*cobra.Command, []string) error { return nil }
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	return c.Execute()
}

// Contenders adds the flag with the names of the contenders to run; more explains names that are not rivals.
func Contenders(set *pflag.FlagSet, names *[]string, defaults []string, more string) {
	set.StringSliceVar(names, "contenders", defaults, "who runs, separated by commas"+more)
}

// Known returns an error unless a list has at least one name, and all of them are accepted.
func Known(flag string, names, accepted []string) error {
	for _, name := range names {
		if !slices.Contains(accepted, name) {
			return fmt.Errorf("%s: %q: want some of %s", flag, name, strings.Join(accepted, ", "))
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("%s: no names: want some of %s", flag, strings.Join(accepted, ", "))
	}
	return nil
}
