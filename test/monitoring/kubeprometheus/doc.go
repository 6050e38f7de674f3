// Command kubeprometheus evaluates the rules of kube-prometheus on pages that were scraped, with Prometheus' own parser
// and engine, as a Prometheus does that scrapes the same pages for as long as any alert waits. It prints which alerts
// fire, and which rules record something.
//
// It is in this module for the sake of what Prometheus depends on. Start reading at main, then timeline.
package main
