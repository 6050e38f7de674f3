package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/config"

	// The framework asks these what to do with nodes and with failures.
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/framework/node/init"

	// The specs.
	_ "k8s.io/kubernetes/test/e2e/scheduling"
)

// verdict is what ginkgo tells about failures in a program that is no test.
type verdict struct{ failed bool }

// Fail implements ginkgo.GinkgoTestingT.
func (v *verdict) Fail() { v.failed = true }

func main() {
	config.CopyFlags(config.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.RegisterFailHandler(framework.Fail)
	suite, reporter := framework.CreateGinkgoConfig()
	v := &verdict{}
	ginkgo.RunSpecs(v, "scheduling", suite, reporter)
	if v.failed {
		fmt.Fprintln(os.Stderr, "specs have failed")
		os.Exit(1)
	}
}
