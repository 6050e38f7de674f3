package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"

	"github.com/berth-scheduler/berth/pkg/ca"
	"github.com/berth-scheduler/berth/tools/cluster/internal/build"
	"github.com/berth-scheduler/berth/tools/cluster/internal/pki"
	"github.com/berth-scheduler/berth/tools/cluster/internal/probe"
	"github.com/berth-scheduler/berth/tools/cluster/internal/process"
	"github.com/berth-scheduler/berth/tools/cluster/internal/session"
)

// plane is a control plane that is coming up.
type plane struct {
	Config
	session *session.Session
	ca      *pki.Authority
	// server is the certificate of every server here, the rest are clients.
	server, proxy, admin, manager, scheduler pki.Pair
	// health asks servers that authenticate the administrator.
	health *http.Client
}

// Up starts everything the configuration asks for and returns when it answers
// and when pods can be created in the default namespace.
func Up(ctx context.Context, s *session.Session, config Config) error {
	if err := config.Validate(); err != nil {
		return err
	}
	p := &plane{Config: config.withDefaults(), session: s}
	if err := p.issue(); err != nil {
		return err
	}
	s.State.Cluster = &session.Cluster{
		Kubeconfig:  filepath.Join(p.Dir, "kubeconfig"),
		CAFile:      p.ca.CertFile,
		Admin:       p.admin,
		EtcdClient:  p.server,
		KWOK:        p.KWOK,
		Controllers: p.Controllers,
		Kubernetes:  p.Kubernetes,
	}
	for _, step := range []func(context.Context) error{
		p.startEtcd,
		p.startAPIServer,
		p.writeKubeconfigs,
		p.startControllerManager,
		p.admitPods,
		p.startKWOK,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// issue makes the certificates. Controllers and the scheduler to compare with
// get the identities that Kubernetes grants its own roles to, so that RBAC and
// flow control treat them as in a real cluster.
func (p *plane) issue() error {
	authority, err := pki.Open(filepath.Join(p.Dir, "pki"))
	if err != nil {
		return err
	}
	p.ca = authority
	for _, item := range []struct {
		to      *pki.Pair
		name    string
		subject ca.Subject
	}{
		{&p.server, "server", ca.Subject{Name: "local", Hosts: []string{
			process.Loopback, "localhost", firstServiceIP,
			"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}}},
		{&p.proxy, frontProxy, ca.Subject{Name: frontProxy}},
		{&p.admin, "admin", ca.Subject{Name: "admin", Groups: []string{"system:masters"}}},
		{&p.manager, "kube-controller-manager", ca.Subject{Name: "system:kube-controller-manager"}},
		{&p.scheduler, "kube-scheduler", ca.Subject{Name: "system:kube-scheduler"}},
	} {
		if *item.to, err = authority.Issue(item.name, item.subject); err != nil {
			return err
		}
	}
	p.health, err = probe.Mutual(authority.CertFile, p.admin)
	return err
}

// writeKubeconfigs writes the administrator's file and those of the
// components that run, or may run, against this cluster.
func (p *plane) writeKubeconfigs(context.Context) error {
	state := p.session.State.Cluster
	state.KubeSchedulerKubeconfig = p.componentKubeconfig("kube-scheduler")
	for path, client := range map[string]pki.Pair{
		state.Kubeconfig:                                 p.admin,
		state.KubeSchedulerKubeconfig:                    p.scheduler,
		p.componentKubeconfig("kube-controller-manager"): p.manager,
	} {
		if err := p.ca.WriteKubeconfig(path, state.Server, client); err != nil {
			return err
		}
	}
	return nil
}

func (p *plane) componentKubeconfig(component string) string {
	return filepath.Join(p.Dir, "pki", component+".kubeconfig")
}

// program finds a program of the cluster's version, or returns an error that explains how to build it.
func (p *plane) program(name string) (string, error) {
	path, err := p.Layout.Program(build.ProgramOf(p.Kubernetes, name))
	if err != nil {
		return "", fmt.Errorf("bring up the cluster: %w", err)
	}
	return path, nil
}
