package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/textparse"
	"sigs.k8s.io/yaml"
)

// page is one answer of a target, or that it did not answer.
type page struct {
	// Round counts the rounds in which all pages of all targets were scraped.
	Round int `json:"round"`
	// Job and Instance are the labels that a Prometheus gives the target's series, Endpoint tells the pages of one target
	// apart.
	Job      string `json:"job"`
	Instance string `json:"instance"`
	Endpoint string `json:"endpoint"`
	// File has the page, relative to the list; empty if the target did not answer with one.
	File string `json:"file"`

	series []sample
}

// sample is one value of a series.
type sample struct {
	labels labels.Labels
	value  float64
}

// readPages reads the list of pages and the pages.
func readPages(list string) ([]page, error) {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	var pages []page
	if err := json.Unmarshal(text, &pages); err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	for i := range pages {
		if err := pages[i].read(filepath.Dir(list)); err != nil {
			return nil, err
		}
	}
	return pages, nil
}

func (p *page) read(dir string) error {
	up := 0.0
	if p.File != "" {
		up = 1
		text, err := os.ReadFile(filepath.Join(dir, p.File))
		if err != nil {
			return err
		}
		if err := p.parse(text); err != nil {
			return fmt.Errorf("%s: %w", p.File, err)
		}
	}
	p.series = append(p.series, sample{p.label(labels.FromStrings(labels.MetricName, "up")), up})
	return nil
}

// label adds what a Prometheus adds: labels of the target win over those of the page.
func (p *page) label(set labels.Labels) labels.Labels {
	b := labels.NewBuilder(set)
	b.Set("job", p.Job).Set("instance", p.Instance).Set("endpoint", p.Endpoint).Set("namespace", "kube-system")
	return b.Labels()
}

func (p *page) parse(text []byte) error {
	parser, err := textparse.New(text, "text/plain", labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return err
	}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry != textparse.EntrySeries {
			continue
		}
		_, _, value := parser.Series()
		var set labels.Labels
		parser.Labels(&set)
		p.series = append(p.series, sample{p.label(set), value})
	}
}

// rule is an alert or a recording rule.
type rule struct {
	alert, record, expr string
	labels              map[string]string
	wait                time.Duration
}

// readRules reads the rules of PrometheusRule manifests, in order.
func readRules(files []string) (rules []rule, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var manifest struct {
			Spec any `json:"spec"`
		}
		if err := yaml.Unmarshal(text, &manifest); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		spec, err := yaml.Marshal(manifest.Spec)
		if err != nil {
			return nil, err
		}
		groups, errs := rulefmt.Parse(spec, false, model.UTF8Validation)
		if len(errs) > 0 {
			return nil, fmt.Errorf("%s: %w", file, errors.Join(errs...))
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				rules = append(rules, rule{r.Alert, r.Record, r.Expr, r.Labels, time.Duration(r.For)})
			}
		}
	}
	return rules, nil
}

// readQueries reads the queries of a dashboard, one a line.
func readQueries(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), nil
}
