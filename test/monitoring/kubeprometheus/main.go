package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
)

// report is the outcome.
type report struct {
	// Firing are alerts in the order of their names, each once.
	Firing []string `json:"firing"`
	// Recorded are the names of rules that recorded series about the scheduler.
	Recorded []string `json:"recorded"`
	// Found are queries of the dashboard that find series, of so many.
	Found   []string `json:"found"`
	Queries int      `json:"queries"`
}

func main() {
	scrapes := flag.String("scrapes", "", "the list of scraped pages, JSON")
	rules := flag.String("rules", "", "PrometheusRule manifests, separated by commas")
	queries := flag.String("queries", "", "the queries of a dashboard, one a line")
	flag.Parse()
	if err := run(*scrapes, strings.Split(*rules, ","), *queries); err != nil {
		fmt.Fprintln(os.Stderr, "kubeprometheus:", err)
		os.Exit(1)
	}
}

func run(scrapes string, rules []string, dashboard string) error {
	pages, err := readPages(scrapes)
	if err != nil {
		return err
	}
	groups, err := readRules(rules)
	if err != nil {
		return err
	}
	queries, err := readQueries(dashboard)
	if err != nil {
		return err
	}
	t := newTimeline(pages)
	ctx := context.Background()
	if err := t.play(ctx, groups); err != nil {
		return err
	}
	r := report{Firing: t.firing(), Recorded: t.recorded(), Queries: len(queries)}
	if r.Found, err = t.find(ctx, queries); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}
