package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
)

// report is what comes out.
type report struct {
	// Firing are alerts in the order of their names, each once.
	Firing []string `json:"firing"`
	// Recorded are the names of rules that recorded series about the scheduler.
	Recorded []string `json:"recorded"`
	// Found are panels of the dashboard whose queries find series, of so many.
	Found  []string `json:"found"`
	Panels int      `json:"panels"`
}

func main() {
	scrapes := flag.String("scrapes", "", "the list of scraped pages, JSON")
	rules := flag.String("rules", "", "PrometheusRule manifests, separated by commas")
	dashboards := flag.String("dashboards", "", "the manifest with the dashboards")
	flag.Parse()
	if err := run(*scrapes, strings.Split(*rules, ","), *dashboards); err != nil {
		fmt.Fprintln(os.Stderr, "kubeprometheus:", err)
		os.Exit(1)
	}
}

func run(scrapes string, rules []string, dashboards string) error {
	pages, err := readPages(scrapes)
	if err != nil {
		return err
	}
	groups, err := readRules(rules)
	if err != nil {
		return err
	}
	panels, err := readPanels(dashboards)
	if err != nil {
		return err
	}
	t := newTimeline(pages)
	ctx := context.Background()
	if err := t.play(ctx, groups); err != nil {
		return err
	}
	r := report{Firing: t.firing(), Recorded: t.recorded(), Panels: len(panels)}
	if r.Found, err = t.find(ctx, panels); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
