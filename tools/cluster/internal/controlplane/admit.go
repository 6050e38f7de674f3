package controlplane

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// namespacesWithin bounds the wait for what the API server creates by itself
// right after it calls itself ready.
const namespacesWithin = 30 * time.Second

// admitPods returns when pods can be created in the default namespace: it and
// its service account exist. The controllers would create the account within
// a second; it is created here so that a cluster without them accepts pods.
func (p *plane) admitPods(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", p.session.State.Cluster.Kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	p.session.State.Cluster.Version = version.GitVersion
	ctx, cancel := context.WithTimeout(ctx, namespacesWithin)
	defer cancel()
	var last error
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		last = ensureAccount(ctx, client, metav1.NamespaceDefault)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the default namespace to admit pods: %w; last answer: %w", err, last)
	}
	return nil
}

func ensureAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	_, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
