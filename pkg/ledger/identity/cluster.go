package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// ClusterMismatchError reports a ledger that belongs to another Kubernetes cluster. Its reservations are about
// other nodes, and if two clusters shared it, each would undo the other's work.
type ClusterMismatchError struct {
	// Ledger is the cluster to which the ledger belongs, Cluster the one that made the request.
	Ledger, Cluster string
}

func (e *ClusterMismatchError) Error() string {
	return fmt.Sprintf(
		"ledger: belongs to the Kubernetes cluster with UID %s, but this cluster has UID %s: "+
			"use another etcd or another prefix",
		e.Ledger, e.Cluster)
}

// BindCluster ties the ledger to a Kubernetes cluster (the UID of its kube-system namespace), permanently. A later
// call with the same UID finds this done, and before is then true. It is safe to repeat after any error but
// *ClusterMismatchError.
func BindCluster(ctx context.Context, store ledger.Store, clusterUID string) (before bool, err error) {
	if clusterUID == "" {
		return false, errors.New("ledger: claim: the cluster's UID is empty, want that of its kube-system namespace")
	}
	value, err := codec.Marshal(&ledgerpb.Cluster{Version: ledger.SchemaVersion, Uid: clusterUID})
	if err != nil {
		return false, fmt.Errorf("ledger: claim for cluster %q: %w", clusterUID, err)
	}
	r, err := store.Commit(ctx, ledger.Txn{
		Compares: []ledger.Compare{{Key: KeyCluster, Target: ledger.CreateRevision}},
		Puts:     []ledger.Put{{Key: KeyCluster, Value: value}},
	})
	if err != nil {
		return false, fmt.Errorf("ledger: claim for cluster %s: %w", clusterUID, err)
	}
	if r.Succeeded {
		return false, nil
	}
	owner, err := DecodeCluster(r.ValueOf(KeyCluster).Value)
	if err != nil {
		return false, err
	}
	if owner != clusterUID {
		return false, &ClusterMismatchError{Ledger: owner, Cluster: clusterUID}
	}
	return true, nil
}

// DecodeCluster decodes the value of KeyCluster, the UID of a Kubernetes cluster.
func DecodeCluster(value []byte) (string, error) {
	var m ledgerpb.Cluster
	if err := codec.Unmarshal(value, &m, m.GetVersion); err != nil {
		return "", fmt.Errorf("ledger: key %s: %w", KeyCluster, err)
	}
	if m.GetUid() == "" {
		return "", fmt.Errorf("ledger: key %s: no cluster UID", KeyCluster)
	}
	return m.GetUid(), nil
}
