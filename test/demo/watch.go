package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// boundTimeout bounds the wait for all pods to be placed.
const boundTimeout = 2 * time.Minute

// podPath is what the watch saw of one pod.
type podPath struct {
	uid, name, app, node string
	created, bound       time.Time
}

type podWatch struct{ w watch.Interface }

// watchPods starts before the first pod exists, so that every time is the watch's own.
func watchPods(ctx context.Context, client kubernetes.Interface) (*podWatch, error) {
	w, err := client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return &podWatch{w: w}, nil
}

func (p *podWatch) stop() { p.w.Stop() }

// waitBound collects pods until want of them are bound.
func (p *podWatch) waitBound(ctx context.Context, want int) (map[string]*podPath, error) {
	ctx, cancel := context.WithTimeout(ctx, boundTimeout)
	defer cancel()
	paths := map[string]*podPath{}
	bound := 0
	for bound < want {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d pods placed after %s: %w", bound, want, boundTimeout, ctx.Err())
		case e, ok := <-p.w.ResultChan():
			if !ok {
				return nil, fmt.Errorf("the watch on pods ended with %d of %d placed", bound, want)
			}
			pod, ok := e.Object.(*corev1.Pod)
			if ok && see(paths, pod) {
				bound++
			}
		}
	}
	return paths, nil
}

// see notes the pod's news; true when it has just been bound.
func see(paths map[string]*podPath, pod *corev1.Pod) bool {
	path := paths[string(pod.UID)]
	if path == nil {
		path = &podPath{uid: string(pod.UID), name: pod.Name, app: pod.Labels["app"], created: time.Now()}
		paths[path.uid] = path
	}
	if path.node != "" || pod.Spec.NodeName == "" {
		return false
	}
	path.node, path.bound = pod.Spec.NodeName, time.Now()
	return true
}
