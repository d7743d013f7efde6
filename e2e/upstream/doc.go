// Command upstream runs client-go's own tests over Tarn's adapters and prints how each ended.
// With -suites it runs the integration suites of controller-runtime and of public operators
// against `tarn apiserver`.
//
// Nothing of client-go is in this repository. The test files of tools/cache,
// dynamic/dynamicinformer and metadata/metadatainformer are read from the module cache,
// rewritten, and compiled through an overlay. (informers has no tests.) Then every test
// runs in a process of its own.
//
// The rewriting follows the types, by these rules:
//
//  1. What client-go's package exports is used from there, except what the adapters export under the
//     same name: this is the adapters'.
//  2. A pointer to one of the structs in the table interfaces becomes the interface that the
//     struct implements.
//  3. Package standin has a private name that the tests of informers use.
//  4. Statements that only check, log or fetch something private are dropped.
//  5. A test is left out if it still needs something private, or if rule 4 leaves it without
//     a check; see the count "private".
//  6. A test is left out if no adapter is used in it; see the count "no adapter".
//
// With -control the tests run over client-go itself, which shows that the rules do not break
// them: all must pass.
//
// Which tests are expected to fail is read from docs/clientgo-behaviours.md. The exit
// status is 1 if another one fails, or if one of these passes.
//
//	cd e2e && go run ./upstream
//	cd e2e && go run ./upstream -v -run TestReflector
//
// The suites, which were written for envtest, are compiled in copies of the operators' modules, with their own go.mod, and run
// with USE_EXISTING_CLUSTER, each on a new server without controllers. A spec that fails gets two more tries. Which
// specs are expected to fail is read from suites.txt: the exit status is 1 if another one
// fails, or if one of these passes. With -real the suites run against kube-apiserver, which
// shows what fails there as well. With -compare they run against both, and each spec that
// ends differently is listed. controller-runtime-on-tarn is controller-runtime with the cache of package
// controllerruntime in place of its own, and jobset-on-tarn and lws-on-tarn are those operators, unchanged except for the
// line that the manager of a suite needs.
//
//	cd e2e && go run ./upstream -suites
//	cd e2e && go run ./upstream -suites -real -v -run pkg/client$
//	cd e2e && go run ./upstream -suites -compare -run jobset
package main
