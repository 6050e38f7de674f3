package explain

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// mostForExplain bounds `berth explain pod` at rest, as what nine of ten take.
const mostForExplain = 200 * time.Millisecond

// report writes how long explanations took, and returns an error if that is too long.
func (m *measurement) report(w io.Writer) error {
	fmt.Fprintf(w, "berth explain pod, the whole process, with %d pods\n", m.pods)
	times(w, "right after the last bind", m.atWork)
	most := times(w, "when the ledger promises nothing any more", m.took)
	if most > mostForExplain {
		return fmt.Errorf("at rest nine of ten take up to %s, want at most %s", most, mostForExplain)
	}
	fmt.Fprintf(w, "verdict: within the limit of %s\n", mostForExplain)
	return nil
}

// times writes how long explanations took, and returns the duration within which nine of ten completed.
func times(w io.Writer, when string, took []time.Duration) (most time.Duration) {
	took = slices.Sorted(slices.Values(took))
	most = took[(9*len(took)+9)/10-1]
	fmt.Fprintf(w, "  %s: median %s, nine of ten within %s, at most %s\n", when,
		took[len(took)/2].Round(time.Millisecond), most.Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
	return most
}
