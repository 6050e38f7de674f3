package app

// These packages register the metrics of client-go, under the names that all Kubernetes components use: rest_client_*
// and leader_election_*. The library observes them itself.
import (
	_ "k8s.io/component-base/metrics/prometheus/clientgo/leaderelection" // metrics of --lease
	_ "k8s.io/component-base/metrics/prometheus/restclient"              // metrics of requests to the API server
)
