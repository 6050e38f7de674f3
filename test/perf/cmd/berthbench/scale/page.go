package scale

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// head is the page up to the tables, tail the page after them.
//
//go:embed head.txt
var pageHead string

//go:embed tail.txt
var pageTail string

// writePage writes the document, and what its plots show.
func writePage(o options, result outcome.Outcome) error {
	raw, err := json.Marshal(result.Plots)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(o.out, "plots.json"), raw, 0o644); err != nil || o.docs == "" {
		return err
	}
	var b strings.Builder
	b.WriteString(pageHead)
	m := result.Machine
	fmt.Fprintf(&b, "\n## The numbers\n\n%s, seed %d; compared with %s. "+
		"%s, %d processors, %s MB, %s, %s; load average at the end %s.\n",
		result.Time.Format("2006-01-02"), o.seed, result.Versions["berth"], m.Processor, m.Processors,
		outcome.Number(float64(m.MemoryMB)), m.Platform, m.Go, m.LoadAverages())
	for _, t := range result.Tables {
		b.WriteString(markdown(t))
	}
	for _, p := range result.Plots {
		fmt.Fprintf(&b, "\n![%s](plots/%s.svg)\n", p.Title, p.Name)
	}
	b.WriteString(pageTail)
	if err := ensureDir(o.docs); err != nil {
		return err
	}
	return os.WriteFile(o.docs, []byte(b.String()), 0o644)
}
