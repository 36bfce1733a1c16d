//! Build, up, down, test, bench, generate, vm.
