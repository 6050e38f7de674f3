package lease

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/berth-scheduler/berth/pkg/telemetry"
)

// These are kube-scheduler's times (leaderElection in its configuration).
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// Ref names a Lease.
type Ref struct{ Namespace, Name string }

// Parse parses NAMESPACE/NAME.
func Parse(text string) (Ref, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Ref{}, fmt.Errorf("%q: want NAMESPACE/NAME, such as kube-system/kube-scheduler", text)
	}
	return Ref{namespace, name}, nil
}

// Keeper keeps one Lease. Its methods may be called one after the other.
type Keeper struct {
	ref    Ref
	config leaderelection.LeaderElectionConfig
	logger *slog.Logger
}

// New returns a keeper that holds the Lease under an identity. It makes no request yet.
func New(config *rest.Config, ref Ref, identity string, logger *slog.Logger) (*Keeper, error) {
	config = rest.CopyConfig(config)
	config.Timeout = renewDeadline
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("--lease: client for %s: %w", config.Host, err)
	}
	k := &Keeper{ref: ref, logger: logger.With("lease", ref.Namespace+"/"+ref.Name)}
	k.config = leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Name: ref.Name,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { k.logger.Info("holding the Lease") },
			OnStoppedLeading: func() {},
		},
	}
	return k, nil
}

// Run holds the Lease, or tries to get it, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		elector, err := leaderelection.NewLeaderElector(k.config)
		if err != nil {
			k.logger.Error("not keeping the Lease", telemetry.KeyError, err)
			return
		}
		elector.Run(ctx) // tries to get it every retryPeriod, and returns when it has lost it
		if ctx.Err() == nil {
			k.logger.Warn("the Lease could not be renewed; trying to get it again")
		}
	}
}
