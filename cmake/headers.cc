// Its target compiles ahead what libraries include (cmake/Soapstone.cmake).
