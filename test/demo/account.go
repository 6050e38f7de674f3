package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/events/jetstream"
)

// account prints where the pods went and how long they took.
func account(ctx context.Context, w io.Writer, client kubernetes.Interface, paths map[string]*podPath) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	zoneOf := map[string]string{}
	for _, n := range nodes.Items {
		zoneOf[n.Name] = n.Labels[corev1.LabelTopologyZone]
	}
	zones := slices.Compact(slices.Sorted(maps.Values(zoneOf)))
	byApp := map[string][]*podPath{}
	for _, p := range paths {
		byApp[p.app] = append(byApp[p.app], p)
	}
	fmt.Fprintf(w, "\n%d pods placed on %d nodes.\n\n", len(paths), len(nodes.Items))
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "WORKLOAD\tPODS\t%s\tNODES\tMEDIAN\tSLOWEST\n", strings.ToUpper(strings.Join(zones, "\t")))
	for _, app := range slices.Sorted(maps.Keys(byApp)) {
		writeRow(t, app, byApp[app], zones, zoneOf)
	}
	writeRow(t, "all", slices.Collect(maps.Values(paths)), zones, zoneOf)
	return t.Flush()
}

func writeRow(w io.Writer, app string, pods []*podPath, zones []string, zoneOf map[string]string) {
	perZone, perNode := map[string]int{}, map[string]int{}
	took := make([]time.Duration, 0, len(pods))
	for _, p := range pods {
		perZone[zoneOf[p.node]]++
		perNode[p.node]++
		took = append(took, p.bound.Sub(p.created))
	}
	slices.Sort(took)
	fmt.Fprintf(w, "%s\t%d", app, len(pods))
	for _, z := range zones {
		fmt.Fprintf(w, "\t%d", perZone[z])
	}
	fmt.Fprintf(w, "\t%d\t%s\t%s\n", len(perNode), round(took[len(took)/2]), round(took[len(took)-1]))
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// explainPath prints one pod's path, from the watch and from Berth's own log.
func (d *demo) explainPath(ctx context.Context, w io.Writer, paths map[string]*podPath) error {
	byName := func(a, b *podPath) int { return strings.Compare(a.name, b.name) }
	pod := slices.MinFunc(slices.Collect(maps.Values(paths)), byName)
	log, err := d.openLog(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	decisions, err := decisionsOf(ctx, log, pod.uid)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\nThe path of pod %s/%s (%s):\n\n", namespace, pod.name, pod.uid)
	t := tabwriter.NewWriter(w, 2, 0, 3, ' ', 0)
	fmt.Fprintf(t, "  %s\tcreated\tseen by the watch\n", pod.created.Format(clockFormat))
	for _, r := range decisions {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", r.at.Format(clockFormat), r.Kind, describe(r.Decision))
	}
	fmt.Fprintf(t, "  %s\ton %s\tseen by the watch, %s after creation\n",
		pod.bound.Format(clockFormat), pod.node, round(pod.bound.Sub(pod.created)))
	return t.Flush()
}

const clockFormat = "15:04:05.0000"

func describe(d events.Decision) string {
	switch d.Kind {
	case events.DecisionPlaced:
		return fmt.Sprintf("%s: %d of %d nodes fit; reserved %s at ledger revision %d (attempt %d, token %s)",
			d.Actor, d.NodesFeasible, d.NodesTotal, d.NodeName, d.LedgerRevision, d.Attempt, d.Token)
	case events.DecisionBound:
		return fmt.Sprintf("%s: bound to %s", d.Actor, d.NodeName)
	}
	return strings.TrimSpace(d.Actor + ": " + d.Message)
}

// openLog connects to the log of the running `berth up`.
func (d *demo) openLog(ctx context.Context) (*jetstream.Log, error) {
	raw, err := os.ReadFile(filepath.Join(d.dataDir(), "endpoints.json"))
	if err != nil {
		return nil, err
	}
	var at struct{ NATS, NATSUser, NATSPass string }
	if err := json.Unmarshal(raw, &at); err != nil {
		return nil, err
	}
	return jetstream.Open(ctx, jetstream.Config{
		URLs: []string{at.NATS}, User: at.NATSUser, Password: at.NATSPass, Name: "demo", Logger: slog.Default(),
	})
}

type timedDecision struct {
	events.Decision
	at time.Time
}

// decisionsOf reads the decisions log up to its present end for one pod.
func decisionsOf(ctx context.Context, log eventlog.Log, uid string) ([]timedDecision, error) {
	last, err := log.Last(ctx, eventlog.Decisions)
	if err != nil || last == 0 {
		return nil, err
	}
	reader, err := log.Read(ctx, eventlog.Decisions, 1)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var found []timedDecision
	for {
		records, err := reader.Next(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the decisions log: %w", err)
		}
		for _, r := range records {
			d, err := events.DecodeDecision(r)
			if err != nil {
				return nil, err
			}
			if d.Pod.UID == uid {
				found = append(found, timedDecision{Decision: d.Decision, at: r.Time})
			}
		}
		if records[len(records)-1].Sequence < last {
			continue
		}
		if len(found) == 0 {
			return nil, errors.New("the decisions log has nothing about the pod")
		}
		return found, nil
	}
}
