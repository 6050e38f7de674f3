//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// etcdPeers and natsRoutes are the ports of the manifests at which members of a store meet.
const (
	etcdPeers  = 2380
	natsRoutes = 6222
)

// storeMembers is how many of each store the manifests run.
const storeMembers = 3

// stores are the etcd members and NATS servers of the manifests, as processes.
type stores struct {
	*system
	// ports are this machine's, by "<store>-<member>:<port of the manifests>".
	ports   map[string]int
	running map[string]*harness.Process
}

// startStores starts three members of each store as their StatefulSets say, and gives each
// service its part of the ledger as the Job does.
func (s *system) startStores() {
	s.Helper()
	s.stores = &stores{system: s, ports: map[string]int{}, running: map[string]*harness.Process{}}
	for store, ports := range map[string][]int{"etcd": {2379, 2380, 2381}, "nats": {4222, 6222, 8222}} {
		for n := range storeMembers {
			for _, port := range ports {
				s.stores.ports[key(store, n, port)] = s.freePort()
			}
		}
	}
	// After all services, which give their leases back. etcd terminates itself by a signal on SIGTERM, and its data
	// is no longer needed.
	s.Cleanup(func() {
		for _, process := range s.stores.running {
			process.Kill()
		}
	})
	s.stores.startAll("etcd")
	s.stores.startAll("nats")
	s.secureLedger()
}

// startAll starts all members of a store and waits until they are ready.
func (st *stores) startAll(store string) {
	st.Helper()
	for n := range storeMembers {
		st.startMember(store, n)
	}
	for n := range storeMembers {
		st.ready(store, n)
	}
}

// secureLedger gives each service its part of the ledger as the Job does.
func (s *system) secureLedger() {
	s.Helper()
	roles := filepath.Join(s.dir, "etcd-roles.yaml")
	s.must(os.WriteFile(roles, []byte(s.storeConfig()["etcd-roles.yaml"]), 0o644))
	result, err := programs.Command(s.Context(), "secure-ledger", "--roles", roles,
		"--etcd-endpoints", strings.Join(s.stores.etcdURLs(), ","), "--etcd-ca-file", s.file("root", "ca.crt"),
		"--etcd-cert-file", s.file("root", "tls.crt"), "--etcd-key-file", s.file("root", "tls.key"))
	s.must(err)
	if result.Code != 0 {
		s.Fatal(result.Stderr)
	}
}

func (s *system) freePort() int {
	s.Helper()
	address, err := harness.FreeAddress()
	s.must(err)
	_, port, err := net.SplitHostPort(address)
	s.must(err)
	n, err := strconv.Atoi(port)
	s.must(err)
	return n
}

func (s *system) storeConfig() map[string]string {
	s.Helper()
	return pick[*corev1.ConfigMap](s, s.shipped, "berth-stores").Data
}

func key(store string, n, port int) string { return fmt.Sprintf("%s-%d:%d", store, n, port) }

func (st *stores) address(store string, n, port int) string {
	return fmt.Sprintf("127.0.0.1:%d", st.ports[key(store, n, port)])
}

func (st *stores) etcdURLs() []string { return st.urls("https", "etcd", 2379) }
func (st *stores) natsURLs() []string { return st.urls("tls", "nats", 4222) }

func (st *stores) urls(scheme, store string, port int) []string {
	var all []string
	for n := range storeMembers {
		all = append(all, scheme+"://"+st.address(store, n, port))
	}
	return all
}

var (
	// peerAddress is how members of a store name each other, ownAddress where they listen.
	peerAddress = regexp.MustCompile(`berth-(etcd|nats)-(\d)\.berth-(?:etcd|nats):(\d+)`)
	ownAddress  = regexp.MustCompile(`0\.0\.0\.0:(\d+)`)
)

// local replaces addresses and folders of a member's configuration.
func (st *stores) local(store string, n int, text string) string {
	st.Helper()
	text = strings.NewReplacer(
		"$(POD_NAME)", fmt.Sprintf("berth-%s-%d", store, n),
		"/var/lib/"+store, st.memberDir(store, n),
		"/etc/berth/tls/", filepath.Join(st.certsDir(), store)+"/",
		"/etc/berth/peer/", filepath.Join(st.certsDir(), store+"-peer")+"/",
		"/etc/nats/", st.memberDir(store, n)+"/",
		"/var/run/nats/", st.memberDir(store, n)+"/",
	).Replace(text)
	text = peerAddress.ReplaceAllStringFunc(text, func(found string) string {
		m := peerAddress.FindStringSubmatch(found)
		other, _ := strconv.Atoi(m[2]) // a digit
		port, _ := strconv.Atoi(m[3])  // digits
		address := st.address(m[1], other, port)
		if port == natsRoutes {
			address = strings.Replace(address, "127.0.0.1", "localhost", 1) // NATS compares names, not addresses
		}
		return address
	})
	return ownAddress.ReplaceAllStringFunc(text, func(found string) string {
		port, _ := strconv.Atoi(ownAddress.FindStringSubmatch(found)[1]) // digits
		return st.address(store, n, port)
	})
}

func (st *stores) memberDir(store string, n int) string {
	return filepath.Join(st.dir, fmt.Sprintf("%s-%d", store, n))
}

// startMember starts a member, also one that ran before.
func (st *stores) startMember(store string, n int) {
	st.Helper()
	dir, name := st.memberDir(store, n), fmt.Sprintf("%s-%d", store, n)
	st.must(os.MkdirAll(dir, 0o700))
	container := pick[*appsv1.StatefulSet](st.system, st.shipped, "berth-"+store).Spec.Template.Spec.Containers[0]
	var args []string
	for _, arg := range append(append([]string{}, container.Command...), container.Args...) {
		args = append(args, st.local(store, n, arg))
	}
	program := "nats-server"
	if store == "etcd" {
		program, args = "etcd", args[1:] // the first names the program
	} else {
		for file, text := range st.storeConfig() {
			text = strings.ReplaceAll(text, "$POD_NAME", fmt.Sprintf("berth-%s-%d", store, n))
			st.must(os.WriteFile(filepath.Join(dir, file), []byte(st.local(store, n, text)), 0o600))
		}
	}
	process, err := harness.Start(st.dir, name, filepath.Join(programs.Root, ".build", "bin", program), args...)
	st.must(err)
	st.running[name] = process
}

// ready waits for a member by its readiness probe.
func (st *stores) ready(store string, n int) {
	st.Helper()
	set := pick[*appsv1.StatefulSet](st.system, st.shipped, "berth-"+store)
	probe := set.Spec.Template.Spec.Containers[0].ReadinessProbe
	url := "http://" + st.address(store, n, map[string]int{"etcd": 2381, "nats": 8222}[store]) + probe.HTTPGet.Path
	name := fmt.Sprintf("%s-%d", store, n)
	st.eventually(readyWithin, name+" is ready", func(ctx context.Context) (string, error) {
		if err := st.running[name].Ended(); err != nil {
			return "", err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err.Error(), nil
		}
		_ = resp.Body.Close() // only the status matters
		if resp.StatusCode != http.StatusOK {
			return resp.Status, nil
		}
		return "", nil
	})
}
