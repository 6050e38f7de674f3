package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// TestEveryCertificateIsWatched: the expiry of every certificate file that a flag names is exported.
func TestEveryCertificateIsWatched(t *testing.T) {
	o := &options{}
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	o.addCommon(flags)
	var want []telemetry.CertificateFile
	flags.VisitAll(func(f *pflag.Flag) {
		authority := strings.HasSuffix(f.Name, "-ca-file")
		if !authority && !strings.HasSuffix(f.Name, "-cert-file") {
			return
		}
		connection, _, _ := strings.Cut(f.Name, "-")
		want = append(want, telemetry.CertificateFile{Connection: connection, Authority: authority, Path: f.Name})
		if err := flags.Set(f.Name, f.Name); err != nil {
			t.Fatal(err)
		}
	})
	if len(want) != 6 {
		t.Errorf("%d flags name certificates, want 6", len(want))
	}
	sorted := cmp.Transformer("sorted", func(all []telemetry.CertificateFile) map[telemetry.CertificateFile]bool {
		set := map[telemetry.CertificateFile]bool{}
		for _, f := range all {
			set[f] = true
		}
		return set
	})
	if diff := cmp.Diff(want, o.certificates(), sorted); diff != "" {
		t.Errorf("files of flags (-) and files whose expiry is exported (+):\n%s", diff)
	}
}
