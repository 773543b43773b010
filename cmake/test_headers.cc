// Compiled for its precompiled headers alone: those of every test (see soapstone_test).
