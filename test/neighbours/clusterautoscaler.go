package neighbours

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/neighbours/scaler"
)

// clusterAutoscaler is Cluster Autoscaler, played by package scaler.
func clusterAutoscaler() Neighbour {
	return Neighbour{
		Name:    "cluster-autoscaler",
		Version: "Cluster Autoscaler 1.36.1 (`k8s.io/autoscaler/cluster-autoscaler`)",
		Played: "The module proxy does not have this module in any version. So a program plays it that follows its source: " +
			"[test/neighbours/scaler](../test/neighbours/scaler/doc.go), which names the files.",
		Scenarios: autoscaler{start: startClusterAutoscaler}.scenarios(unmetByAutoscalers),
	}
}

// unmetByAutoscalers is what Berth lacks beside any autoscaler, by scenario.
var unmetByAutoscalers = map[string]string{
	"script":              "a node in quarantine counts as room for the autoscaler.",
	"name-of-no-node":     "Berth does not clear a name that it did not write.",
	"name-of-a-full-node": "Berth does not clear a name that it did not write.",
	"slow-volume":         "Berth does not write a name while a volume is made.",
}

// startClusterAutoscaler starts it with the elastic pool as its only group of nodes.
func startClusterAutoscaler(ctx context.Context, s *Scene) error {
	template := elasticNode()
	template.Name = elastic
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		scaler.Run(ctx, scaler.Config{
			Client: s.Client, Template: template, Most: mostNodes, Every: 2 * time.Second,
			Unneeded: unneeded, AfterAdd: unneeded, AfterTaint: 5 * time.Second, AtOnce: 20, DrainedAtOnce: 5, Logf: s.Logf,
		})
	})
	s.AtEnd(func(context.Context) error {
		cancel()
		running.Wait()
		return nil
	})
	return nil
}

// answers waits until a program answers a request with 200.
func answers(ctx context.Context, s *Scene, p *harness.Process, url string) error {
	return s.Eventually(ctx, worksWithin, fmt.Sprintf("%s answers %s", p.Name, url),
		func(ctx context.Context) (string, error) {
			if err := p.Ended(); err != nil {
				return "", err
			}
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return "", err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err.Error(), nil
			}
			defer func() { _ = response.Body.Close() }() // nothing of it is read
			if response.StatusCode != http.StatusOK {
				return response.Status, nil
			}
			return "", nil
		})
}
