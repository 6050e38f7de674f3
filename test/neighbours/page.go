package neighbours

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// pagePath is the page with the results, relative to the repository.
	pagePath = "docs/neighbours.md"
	// begin and end are the lines around the generated part of the page.
	begin = `<!-- Written by "make neighbours ACCEPT=1", until the next such comment: manual changes are lost. -->`
	end   = `<!-- Written by "make neighbours ACCEPT=1" until here. -->`
)

// Results returns the generated part of the page: for each neighbour its scenarios and a table, from the records in
// the repository.
func Results(root string, all []Neighbour) (string, error) {
	var b strings.Builder
	for _, n := range all {
		fmt.Fprintf(&b, "\n### %s\n\n%s", n.Name, n.Version)
		if n.Played != "" {
			fmt.Fprintf(&b, ". %s", n.Played)
		}
		b.WriteString("\n\n")
		for _, s := range n.Scenarios {
			fmt.Fprintf(&b, "- *%s*: %s\n", s.Name, s.About)
		}
		b.WriteString("\n| scenario | measured | kube-scheduler 1.36.3 | Berth | accepted |\n|---|---|---|---|---|\n")
		var notes []string
		for _, s := range n.Scenarios {
			r, there, err := Accepted(root, n.Name, s.Name)
			if err != nil {
				return "", err
			}
			if !there {
				fmt.Fprintf(&b, "| %s | not run yet | | | |\n", s.Name)
				continue
			}
			rows(&b, s.Name, r)
			notes = append(notes, notesOf(s, r)...)
		}
		if len(notes) > 0 {
			b.WriteString("\n" + strings.Join(notes, "\n") + "\n")
		}
	}
	b.WriteString("\n")
	return b.String(), nil
}

// rows writes a row for each measure, and one for violations.
func rows(b *strings.Builder, scenario string, r Record) {
	for _, m := range r.Berth.Measures {
		there := "none"
		at := slices.IndexFunc(r.KubeScheduler.Measures, func(u Measure) bool { return u.Name == m.Name })
		if at >= 0 {
			there = r.KubeScheduler.Measures[at].String()
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", scenario, m.Name, there, m, m.Margin)
	}
	fmt.Fprintf(b, "| %s | violations | %d | %d | 0 |\n", scenario, len(r.KubeScheduler.Wrong), len(r.Berth.Wrong))
}

// notesOf are the sentences under the table about one scenario.
func notesOf(s Scenario, r Record) []string {
	with := "- " + s.Name + ": measured with Berth " + r.Version
	if r.Pods > 0 {
		with += fmt.Sprintf(", %d pods", r.Pods)
	}
	notes := []string{with}
	for _, text := range r.KubeScheduler.Wrong {
		notes = append(notes, fmt.Sprintf("- %s, kube-scheduler: %s", s.Name, text))
	}
	for _, text := range r.Differences {
		notes = append(notes, fmt.Sprintf("- %s, Berth: %s", s.Name, text))
	}
	if s.Unmet != "" && len(r.Differences) > 0 {
		notes = append(notes, fmt.Sprintf("- %s: what is missing: %s", s.Name, s.Unmet))
	}
	return notes
}

// Page returns the text of the page with new results between its markers.
func Page(root string, all []Neighbour) (old, updated string, err error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(pagePath)))
	if err != nil {
		return "", "", err
	}
	before, rest, found := strings.Cut(string(text), begin+"\n")
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", "", fmt.Errorf("%s: it lacks the line %s or %s", pagePath, begin, end)
	}
	results, err := Results(root, all)
	if err != nil {
		return "", "", err
	}
	return string(text), before + begin + "\n" + results + end + after, nil
}

// WritePage brings the page up to date.
func WritePage(root string, all []Neighbour) error {
	_, updated, err := Page(root, all)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(pagePath)), []byte(updated), 0o644)
}
