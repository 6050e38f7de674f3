package harness

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// accountWithin bounds the wait for a namespace's service account, without which the API server
// admits no pod.
const accountWithin = time.Minute

// CreateNamespace makes a namespace and returns when pods can be made in it.
func CreateNamespace(ctx context.Context, client kubernetes.Interface, ns *corev1.Namespace) error {
	if _, err := client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	return Eventually(ctx, accountWithin, "namespace "+ns.Name+" has its service account",
		func(ctx context.Context) (string, error) {
			if _, err := client.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return err.Error(), nil
			}
			return "", nil
		})
}

// Namespace is one without anything but a name.
func Namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
