// Package managertest runs a manager of controller-runtime against an embedded API server in a test: what package
// tarntest does for Tarn's own controllers, for a program that knows nothing of Tarn. One call starts the server and the
// manager, and ends both when the test ends:
//
//	func TestEachNamespaceHasItsPolicy(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			env := managertest.Start(t, managertest.Options{Manager: newManager})
//			if err := env.Client().Create(t.Context(), namespace); err != nil {
//				t.Fatal(err)
//			}
//			time.Sleep(time.Minute) // virtual
//			if err := env.Client().Get(t.Context(), key, policy); err != nil {
//				t.Error(err)
//			}
//		})
//	}
//
// newManager is the part of the program's main function that makes the manager and adds its controllers:
//
//	func newManager(cfg *rest.Config, options ctrl.Options) (ctrl.Manager, error)
//
// In a testing/synctest bubble time is virtual, with controller-runtime's own cache as well as with
// controllerruntime.NewCache. Permissions, faults and the exploration of crashes are those of package tarntest.
package managertest
