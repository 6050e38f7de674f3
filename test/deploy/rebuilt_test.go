//go:build e2e

package deploy_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// shortLived is how long the first certificates of TestCertificatesAreRenewed are good for: longer
	// than it takes to start everything on a busy machine.
	shortLived = "150s"
	// expiredWithin is longer than that.
	expiredWithin = 3 * time.Minute
)

// few starts one replica of each service that a pod needs.
func (s *system) few() []*member {
	s.Helper()
	var all []*member
	for _, service := range []string{"queue", "scheduler", "binder"} {
		all = append(all, s.start(service, service+"-0"))
	}
	return all
}

// TestALostStoreIsRebuilt does what the runbook says when all members of a store are gone, with their
// volumes: what runs stays where it is, and what comes afterwards is placed.
func TestALostStoreIsRebuilt(t *testing.T) {
	s := newSystem(t, sixtyNodes)
	s.install("overlays/ha")
	s.certificates()
	s.startStores()
	members := s.few()
	s.workloads("before")
	before := s.places("before")
	for _, store := range []string{"nats", "etcd"} {
		t.Run(store, func(t *testing.T) {
			began := time.Now()
			for _, m := range members {
				s.no(m.Stop(t.Context()))
			}
			for n := range storeMembers {
				s.stores.running[fmt.Sprintf("%s-%d", store, n)].Kill()
				s.no(os.RemoveAll(s.stores.memberDir(store, n)))
			}
			s.stores.startAll(store)
			if store == "etcd" {
				s.secureLedger()
			}
			members = s.few()
			s.workloads("after-" + store)
			t.Logf("pods are placed again after %s", time.Since(began).Round(time.Second))
			if now := s.places("before"); len(now) != len(before) {
				t.Errorf("%d pods of before, want %d", len(now), len(before))
			} else {
				for uid, node := range before {
					if now[uid] != node {
						t.Errorf("pod %s was on %s and is on %q", uid, node, now[uid])
					}
				}
			}
			result, err := programs.Command(t.Context(),
				append([]string{"check", "--kubeconfig", s.cluster.Kubeconfig}, s.ledgerFlags()...)...)
			s.no(err)
			if result.Code != 0 {
				t.Errorf("berth check: exit code %d\n%s%s", result.Code, result.Stdout, result.Stderr)
			}
		})
	}
}

// places are the nodes of the pods of a namespace, by UID.
func (s *system) places(ns string) map[types.UID]string {
	s.Helper()
	pods, err := s.client.CoreV1().Pods(ns).List(s.Context(), metav1.ListOptions{LabelSelector: "app!=batch"})
	s.no(err) // those of Jobs end by themselves
	nodes := map[types.UID]string{}
	for _, p := range pods.Items {
		nodes[p.UID] = p.Spec.NodeName
	}
	return nodes
}

// TestCertificatesAreRenewed: certificates are replaced while everything runs, and the first ones
// expire. Then every connection is broken, so that each has to be made with the new ones.
func TestCertificatesAreRenewed(t *testing.T) {
	s := newSystem(t, sixtyNodes)
	s.install("overlays/ha")
	s.certificates("--validity", shortLived)
	expires := s.expiry("queue")
	s.startStores()
	members := s.few()
	s.workloads("first")
	s.certificates()
	if again := s.expiry("queue"); !again.After(expires) {
		t.Fatalf("the new certificates are good until %s, the first until %s", again, expires)
	}
	for n := range storeMembers {
		s.no(s.stores.running[fmt.Sprintf("nats-%d", n)].Signal(syscall.SIGHUP)) // as nats-server --signal reload
	}
	s.eventually(expiredWithin, "the first certificates have expired", func(context.Context) (string, error) {
		return map[bool]string{true: "not yet"}[!time.Now().After(expires)], nil
	})
	for _, store := range []string{"etcd", "nats"} {
		for n := range storeMembers {
			s.stores.running[fmt.Sprintf("%s-%d", store, n)].Kill()
			s.stores.startMember(store, n)
			s.stores.ready(store, n)
		}
	}
	for _, m := range members {
		if err := m.Ended(); err != nil {
			t.Fatal(err)
		}
		m.client = s.reader("prometheus")
		s.eventually(readyWithin, m.Name+" is ready", m.missing)
	}
	s.workloads("second")
}

// expiry is until when a member's certificate is good.
func (s *system) expiry(name string) time.Time {
	s.Helper()
	raw, err := os.ReadFile(s.file(name, "tls.crt"))
	s.no(err)
	block, _ := pem.Decode(raw)
	if block == nil {
		s.Fatalf("%s: no certificate", name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	s.no(err)
	return cert.NotAfter
}
