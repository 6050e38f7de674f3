package full

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/test/perf/outcome"
)

// head is the page up to the summary, tail the page after the parts.
//
//go:embed head.txt
var head string

//go:embed tail.txt
var tail string

// writeDocs writes the page, from each part's accepted outcome or a newer one that did not fail, and the images of
// its plots.
func writeDocs(_ context.Context, o options, limits []outcome.Limit) error {
	of, err := readAll(o.acceptedPath)
	if err != nil {
		return err
	}
	measured, err := o.measured()
	if err != nil {
		return err
	}
	for name, one := range measured {
		if one.Failure == "" && (of[name] == nil || one.Time.After(of[name].Time)) {
			of[name] = one
		}
	}
	if err := os.WriteFile(o.docs, []byte(page(limits, of)), 0o644); err != nil || o.plots == "" {
		return err
	}
	raw, err := json.Marshal(plots(of))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.plots), 0o755); err != nil {
		return err
	}
	return os.WriteFile(o.plots, raw, 0o644)
}

// plots are those of all parts, named as the page names them.
func plots(of map[string]*outcome.Outcome) []outcome.Plot {
	all := []outcome.Plot{}
	for _, p := range parts {
		if of[p.name] == nil {
			continue
		}
		for _, plot := range of[p.name].Plots {
			if plot.Empty() {
				continue
			}
			plot.Name = p.name + "-" + plot.Name
			all = append(all, plot)
		}
	}
	return all
}

// page is the document: the summary, then each part. A part without an outcome says so.
func page(limits []outcome.Limit, accepted map[string]*outcome.Outcome) string {
	var b strings.Builder
	b.WriteString(head)
	b.WriteString(summary(limits, accepted))
	for _, p := range parts {
		if one := accepted[p.name]; one != nil {
			chapter(&b, p, one)
			missing(&b, p, limits, accepted)
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\nThis part has no accepted outcome yet. `make bench-full PARTS=%s` measures it.\n",
			p.title, p.name)
	}
	b.WriteString(tail)
	return b.String()
}

// missing names the measures of a part that its outcome has no value for: they came later than the outcome.
func missing(b *strings.Builder, p part, limits []outcome.Limit, of map[string]*outcome.Outcome) {
	n := 0
	for _, l := range limits {
		if state, _ := l.Judge(of); l.Part == p.name && state == outcome.Missing {
			n++
		}
	}
	if n > 0 {
		fmt.Fprintf(b, "\nThis outcome is older than %d of the part's measures, which have no accepted value yet.\n", n)
	}
}

// chapter is one part: how it was measured, its tables and its plots.
func chapter(b *strings.Builder, p part, o *outcome.Outcome) {
	fmt.Fprintf(b, "\n## %s\n\n", p.title)
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(o.Versions)) {
		versions = append(versions, o.Versions[name])
	}
	m, runs := o.Machine, "one run"
	if o.Runs > 1 {
		runs = fmt.Sprintf("medians of %d runs", o.Runs)
	}
	fmt.Fprintf(b, "%s, %s. %s. %s, %d processors, %s MB, %s, %s; load average at the end %s.\n",
		o.Time.Format("2006-01-02"), runs, strings.Join(versions, "; "), m.Processor, m.Processors,
		outcome.Number(float64(m.MemoryMB)), m.Platform, m.Go, m.LoadAverages())
	fmt.Fprintf(b, "`make bench-full PARTS=%s`, which runs:\n\n"+
		"<!-- not run: a measurement of minutes or more -->\n```\n%s\n```\n", p.name, o.Command)
	for _, t := range o.Tables {
		fmt.Fprintf(b, "\n**%s**\n\n", t.Title)
		t.Markdown(b)
	}
	for _, plot := range o.Plots {
		if !plot.Empty() {
			fmt.Fprintf(b, "\n![%s](plots/%s-%s.svg)\n", plot.Title, p.name, plot.Name)
		}
	}
}
