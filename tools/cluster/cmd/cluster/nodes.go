package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/tools/cluster/internal/nodes"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
)

func nodesCommand() *cobra.Command {
	var dir, file string
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Create the nodes described in a file and wait until they are ready",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			description, err := nodes.Load(file)
			if err != nil {
				return err
			}
			state, err := readyCluster(dir)
			if err != nil {
				return err
			}
			client, err := nodesClient(state.Cluster.Kubeconfig)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd.Context())
			defer stop()
			began := time.Now()
			result, err := nodes.Create(ctx, client, description, state.Cluster.KWOK)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "cluster: %d nodes created, %d existed, all ready in %s\n",
				result.Created, result.Existing, time.Since(began).Round(10*time.Millisecond))
			return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
		},
	}
	addDir(cmd, &dir)
	cmd.Flags().StringVarP(&file, "filename", "f", "", "node file (required)")
	_ = cmd.MarkFlagRequired("filename")
	return cmd
}

// readyCluster returns the state of a cluster that is up.
func readyCluster(dir string) (session.State, error) {
	state, err := session.Load(dir)
	if err != nil {
		return state, err
	}
	if state.Cluster == nil {
		return state, fmt.Errorf("%s is a %s, not a cluster", dir, state.Kind)
	}
	if state.Phase != session.Ready {
		return state, fmt.Errorf("the cluster in %s is %s, not ready", dir, state.Phase)
	}
	return state, nil
}

// nodesClient is not throttled below what nodes.Create asks of it, and speaks
// protobuf, which costs the API server a fraction of what JSON does.
func nodesClient(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 5000, 5000
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfig(config)
}
