//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// Bounds of a kubelet's forwarding, as kubelets have them.
const (
	forwardIdle    = 4 * time.Hour
	forwardCreated = 30 * time.Second
)

// kubelet forwards ports of the stores' pods to this machine's ports of the stores, as the kubelet of a node does.
type kubelet struct {
	stores *stores
}

// ServeHTTP answers /portForward/NAMESPACE/POD.
func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if len(path) != 3 || path[0] != "portForward" || path[1] != namespace {
		http.NotFound(w, r)
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(
		w, r, k, path[2], "", options, forwardIdle, forwardCreated, portforward.SupportedProtocols)
}

// PortForward implements portforward.PortForwarder.
func (k *kubelet) PortForward(
	ctx context.Context, pod string, _ string, port int32, stream io.ReadWriteCloser,
) error {
	local, ok := k.stores.ports[strings.TrimPrefix(pod, "berth-")+":"+strconv.Itoa(int(port))]
	if !ok {
		return fmt.Errorf("pod %s does not listen on port %d", pod, port)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(local)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // both directions have ended
	go func() {
		_, _ = io.Copy(conn, stream) // it ends with the stream
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(stream, conn) // it ends with the connection, which the client closes
	return nil
}

// kubeletNode makes a node with this kubelet, and the stores' pods on it.
func (s *system) kubeletNode() {
	s.Helper()
	server := httptest.NewTLSServer(&kubelet{stores: s.stores})
	s.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	s.must(err)
	port, err := strconv.Atoi(address.Port())
	s.must(err)
	node := &corev1.Node{ObjectMeta: named("with-kubelet")}
	node.Spec.Unschedulable = true
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address.Hostname()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = s.client.CoreV1().Nodes().Create(s.Context(), node, metav1.CreateOptions{})
	s.must(err)
	for _, store := range []string{"etcd", "nats"} {
		for n := range storeMembers {
			s.storePod(node.Name, store, n)
		}
	}
}

// storePod makes the pod of a store's member, ready on a node.
func (s *system) storePod(node, store string, n int) {
	s.Helper()
	shipped := pick[*appsv1.StatefulSet](s, s.shipped, "berth-"+store).Spec.Template
	pod := &corev1.Pod{ObjectMeta: named(fmt.Sprintf("berth-%s-%d", store, n)), Spec: *shipped.Spec.DeepCopy()}
	pod.Labels, pod.Spec.NodeName, pod.Spec.PriorityClassName = shipped.Labels, node, "" // no such class is installed
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data"})             // in place of the claim
	_, err := s.client.CoreV1().Pods(namespace).Create(s.Context(), pod, metav1.CreateOptions{})
	s.must(err)
	s.eventually(readyWithin, pod.Name+" is ready", func(ctx context.Context) (string, error) {
		now, err := s.client.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err.Error(), nil
		}
		for _, c := range now.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return "", nil
			}
		}
		return string(now.Status.Phase), nil
	})
}

// observerSecret applies the secret that `berth certs` made.
func (s *system) observerSecret() {
	s.Helper()
	secret := &corev1.Secret{
		ObjectMeta: named("berth-observer-tls"), Type: corev1.SecretTypeTLS, Data: map[string][]byte{},
	}
	for _, file := range []string{"ca.crt", "tls.crt", "tls.key"} {
		raw, err := os.ReadFile(s.file("observer", file))
		s.must(err)
		secret.Data[file] = raw
	}
	_, err := s.client.CoreV1().Secrets(namespace).Create(s.Context(), secret, metav1.CreateOptions{})
	s.must(err)
}

// observe gives an account the shipped Role.
func (s *system) observe(account string) {
	s.Helper()
	role := pick[*rbacv1.Role](s, s.shipped, "berth-observer")
	_, err := s.client.RbacV1().Roles(namespace).Create(s.Context(), role, metav1.CreateOptions{})
	s.must(err)
	_, err = s.client.RbacV1().RoleBindings(namespace).Create(s.Context(), &rbacv1.RoleBinding{
		ObjectMeta: named("berth-observer"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}, metav1.CreateOptions{})
	s.must(err)
}

// TestObserver: a user with a kubeconfig and the shipped Role asks a Berth that runs in the cluster, through ports that
// the API server forwards; a user without the Role reads in the error which one it is.
func TestObserver(t *testing.T) {
	s := newSystem(t, sixtyNodes)
	s.install("overlays/ha")
	s.certificates()
	s.startStores()
	for _, service := range []string{"queue", "scheduler", "binder"} {
		s.start(service, service+"-0")
	}
	ns := "watched"
	s.create(&corev1.Namespace{ObjectMeta: named(ns)})
	_, err := s.client.CoreV1().Pods(ns).Create(t.Context(),
		&corev1.Pod{ObjectMeta: named("web"), Spec: template("web", "100m").Spec}, metav1.CreateOptions{})
	s.must(err)
	s.bound(ns, 1, placedWithin)
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "alice", Namespace: namespace}})
	alice := s.kubeconfig("alice")
	s.commandFails("secrets \"berth-observer-tls\" is forbidden", "explain", "pod", ns+"/web", "--kubeconfig", alice)
	s.commandFails("Role berth-observer grants access", "explain", "pod", ns+"/web", "--kubeconfig", alice)
	s.observe("alice")
	s.commandFails("none of them ready", "explain", "pod", ns+"/web", "--kubeconfig", alice)
	s.kubeletNode()
	s.commandFails("namespace berth-system has no secret berth-observer-tls", "trace", "pod", ns+"/web",
		"--kubeconfig", alice)
	s.observerSecret()
	pod, err := s.client.CoreV1().Pods(ns).Get(t.Context(), "web", metav1.GetOptions{})
	s.must(err)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"explain", "pod", ns + "/web"}, []string{"state: bound", pod.Spec.NodeName}},
		{[]string{"explain", "node", pod.Spec.NodeName}, []string{pod.Spec.NodeName, ns + "/web"}},
		{[]string{"trace", "pod", string(pod.UID)}, []string{"bind"}},
		{[]string{"status"}, []string{"descheduling is not paused", "scheduler", "priorities and quotas are not shown"}},
		{[]string{"status", "--berth-namespace", namespace}, []string{"descheduling is not paused"}},
		{[]string{"export", "--file", filepath.Join(s.dir, "bundle.tar")}, []string{"FACTS"}},
	} {
		got := s.command(append(c.args, "--kubeconfig", alice)...)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("berth %s: %q is not in\n%s", strings.Join(c.args, " "), want, got)
			}
		}
	}
}

// command runs berth and returns its output.
func (s *system) command(args ...string) string {
	s.Helper()
	result, err := programs.Command(s.Context(), args...)
	s.must(err)
	if result.Code != 0 {
		s.Fatalf("berth %s: %s", strings.Join(args, " "), result.Stderr)
	}
	return result.Stdout
}

// commandFails runs berth, which has to fail with a message.
func (s *system) commandFails(want string, args ...string) {
	s.Helper()
	result, err := programs.Command(s.Context(), args...)
	s.must(err)
	if result.Code == 0 || !strings.Contains(result.Stderr, want) {
		s.Errorf("berth %s: exit code %d, %s\nwant %q in it", strings.Join(args, " "), result.Code, result.Stderr, want)
	}
}
