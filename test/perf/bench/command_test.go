package bench

import (
	"context"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// subject is a subcommand with one flag.
type subject struct{ names []string }

func (s *subject) Flags(set *pflag.FlagSet)    { Contenders(set, &s.names, []string{"a", "b"}, "") }
func (s *subject) Validate() error             { return Known("--contenders", s.names, []string{"a", "b"}) }
func (s *subject) Run(_ context.Context) error { panic("Parse runs nothing") }

func TestParseNamesTheFlagAndItsValues(t *testing.T) {
	for args, want := range map[string]string{
		"":                 "",
		"--contenders=b":   "",
		"--contenders=":    "--contenders: no names: want some of a, b",
		"--contenders=c":   `--contenders: "c": want some of a, b`,
		"--contender=a":    "unknown flag: --contender",
		"--contenders=a b": `unknown command "b"`,
	} {
		err := Parse(&subject{}, strings.Fields(args)...)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", args, err, want)
		}
	}
}
