package render

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/audit"
)

func TestCheckSaysWhetherTheLedgerWasRead(t *testing.T) {
	for ledger, want := range map[bool]string{
		true:  "1 reserved, 0 of them being cancelled",
		false: "the ledger was not read (see --berth-namespace)",
	} {
		var out strings.Builder
		if err := Check(&out, &audit.CheckReport{Nodes: 2, Reserved: 1, Ledger: ledger}, ""); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("with a ledger %v it says %q, want %q", ledger, out.String(), want)
		}
	}
}
