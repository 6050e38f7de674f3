package e2e

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// calmWithin bounds the wait for a calm cluster, calmEvery is how often the processor times are read, and
	// calmShare is the share of one processor that all processes together may use in between.
	calmWithin = 3 * time.Minute
	calmEvery  = 2 * time.Second
	calmShare  = 0.3
)

// calm waits until the cluster and the contender have done what starting them and creating the nodes
// has left them to do, so that pods that arrive one by one meet neither.
func (g *ground) calm(ctx context.Context) error {
	pids := append(g.Cluster.PIDs("kube-apiserver", "etcd", "kube-controller-manager"), g.PIDs...)
	var before time.Duration
	var at time.Time
	return harness.Eventually(ctx, calmWithin, "a calm cluster", func(context.Context) (string, error) {
		if since := time.Since(at); !at.IsZero() && since < calmEvery {
			return "the processor times were read a moment ago", nil
		}
		used, err := harness.CPUTime(pids...)
		if err != nil {
			return "", err
		}
		first, share := at.IsZero(), (used-before).Seconds()/time.Since(at).Seconds()
		before, at = used, time.Now()
		if first || share > calmShare {
			return fmt.Sprintf("%.2f processors are used", share), nil
		}
		return "", nil
	})
}
